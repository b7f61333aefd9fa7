//! The operator on a real API server: one control plane for all tests, a namespace, a kind and an operator each. The
//! operator runs as a user with the rights that `config/rbac` gives it, never as admin.

#[path = "../support/mod.rs"]
mod support;

mod absence;
mod asked;
mod autoscaler;
mod bounds;
mod changeless;
mod contest;
mod cost;
mod crash;
mod crds;
mod deletion;
mod drift;
mod failure;
mod former;
mod gates;
mod gone;
mod guards;
mod hook_runs;
mod hooks;
mod kept;
mod leader;
mod lifecycle;
mod look;
mod lookups;
mod lost;
mod needs;
mod operator;
mod owners;
mod plans;
mod prune;
mod record;
mod redaction;
mod refusal;
mod remediation;
mod render;
mod replicas;
mod requests;
mod retry;
mod rights;
mod rollback;
mod schema;
mod scope;
mod sources;
mod status_template;
mod takeover;
mod takeover_many;
mod traps;
mod traps_apply;
mod unions;
mod usage;
mod watches;
mod waves;
mod world;
