//! What the Kubernetes documentation says that people write operators for, one test each, by the project's charts.
