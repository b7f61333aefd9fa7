//! Charts of tests/fixtures/crd, and tables.
