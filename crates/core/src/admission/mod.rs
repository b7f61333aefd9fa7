//! What the validating webhook decides: which requests of the API server are previewed, and what the answer is.
//!
//! - [`request`]: an AdmissionReview, and whether its change concerns a release
//! - [`answer`]: from a preview to the answer
//! - [`registration`]: the ValidatingWebhookConfiguration that makes the API server call the webhook
//!
//! Invariant: only a change that leaves its release `Stalled` is refused. If no preview can be made, the change is admitted.

pub mod answer;
pub mod registration;
pub mod request;
