//! Tests of several modules together.

mod outside_text;
