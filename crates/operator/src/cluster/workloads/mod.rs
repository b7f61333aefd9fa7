//! Requests about a workload's pods, leaders and autoscalers.

pub mod autoscalers;
pub mod elect;
pub mod pods;
pub mod warnings;
