#!/bin/sh
# stateright 0.31.0 (Rust), a model checker: a breadth-first search should show the shortest counterexample. It does so for a
# model with one property. With a second property that always holds, the search goes on, and each further state that breaks
# the first property replaces its counterexample. So the trace that is shown is the longest. 0.30.2 keeps the first one. With
# 0.31.0, a search for the shortest trace has to be made for each property alone.
#
# Seen: a counter to nine has to stay below three. The counterexample ends in state 3, and in state 9 with 0.31.0 and two
# properties.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir src
cat >src/main.rs <<'RUST'
use stateright::{Checker, Model, Property};

struct Counter {
    properties: usize,
}

impl Model for Counter {
    type State = u8;
    type Action = u8;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, state: &u8, actions: &mut Vec<u8>) {
        if *state < 9 {
            actions.push(1);
        }
    }

    fn next_state(&self, state: &u8, step: u8) -> Option<u8> {
        Some(state + step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let broken = Property::<Self>::always("below three", |_, state| *state < 3);
        let kept = Property::<Self>::always("below a hundred", |_, state| *state < 100);
        [broken, kept].into_iter().take(self.properties).collect()
    }
}

fn main() {
    for properties in [1, 2] {
        let checker = Counter { properties }.checker().threads(1).spawn_bfs().join();
        let found = checker.discovery("below three").expect("a counterexample");
        println!("{properties}: state {}", found.last_state());
    }
}
RUST
for version in 0.30.2 0.31.0; do
    cat >Cargo.toml <<TOML
[package]
name = "try"
version = "0.0.0"
edition = "2021"

[dependencies]
stateright = "=$version"
TOML
    cargo run --quiet | sed "s/^/$version, properties /"
done >seen
cat seen
cat >expected <<'TEXT'
0.30.2, properties 1: state 3
0.30.2, properties 2: state 3
0.31.0, properties 1: state 3
0.31.0, properties 2: state 9
TEXT
diff expected seen || { echo "changed" >&2; exit 1; }
