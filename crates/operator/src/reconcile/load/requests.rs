//! Requests in annotations.
