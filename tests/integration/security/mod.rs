//! What authors of custom resources and the operator itself may do, and what stays secret.

pub mod admission_policies;
pub mod forged_status;
mod impersonation;
pub mod metrics_access;
pub mod operator_rights;
pub mod redaction;
pub mod refusals;
pub mod render_limits;
