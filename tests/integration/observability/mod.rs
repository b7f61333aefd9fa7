//! The alerts of `config/observability`, each on an operator in the state that it reports, evaluated by a real Prometheus:
//! `PROMETHEUS=off` leaves these tests out. And the traces, sent to a collector.

mod operator_alerts;
mod prometheus;
mod release_alerts;
mod traces;
