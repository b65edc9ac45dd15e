//! Tests of the dependency rules.
