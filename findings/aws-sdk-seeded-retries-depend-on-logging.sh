#!/bin/sh
# aws-sdk-dynamodb 1.70.0 and 1.136.0 (Rust) with tracing's feature `log`, which other crates switch on: each call draws a
# number for its span from fastrand's generator of the thread. It does so only until the process sets a subscriber for the
# first time, even one that logs nothing. The delays of retries are drawn from the same generator. So a program that seeds
# it, to repeat a run, gets other delays as soon as anything begins to log. Setting a subscriber before the first call helps.
#
# Seen: after a seed and a call, the generator has moved before the first subscriber, and has not moved after it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir src
cat >src/main.rs <<'RUST'
use aws_sdk_dynamodb::{
    config::{retry::RetryConfig, BehaviorVersion, Credentials, Region},
    Client, Config,
};
use tokio::runtime::{Builder, Runtime};

/// Whether a call moves the generator. The call fails at once: there is no HTTP client.
fn moves(runtime: &Runtime, client: &Client) -> bool {
    fastrand::seed(7);
    let first = fastrand::u64(..);
    fastrand::seed(7);
    assert!(runtime.block_on(client.list_tables().send()).is_err());
    fastrand::u64(..) != first
}

fn main() {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .credentials_provider(Credentials::new("a", "b", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .build();
    let client = Client::from_conf(config);
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let before = [moves(&runtime, &client), moves(&runtime, &client)];
    let subscriber = tracing::subscriber::NoSubscriber::new();
    let _none = tracing::subscriber::set_default(subscriber);
    let after = [moves(&runtime, &client), moves(&runtime, &client)];
    println!("moved before a subscriber: {before:?}, after one: {after:?}");
    assert_eq!((before, after), ([true, true], [false, false]));
}
RUST
for version in 1.70.0 1.136.0; do
    cat >Cargo.toml <<TOML
[package]
name = "seeded"
version = "0.0.0"
edition = "2021"

[dependencies]
aws-sdk-dynamodb = { version = "=$version", default-features = false, features = ["rt-tokio"] }
fastrand = "2"
tokio = { version = "1", features = ["rt", "time"] }
tracing = { version = "=0.1.44", features = ["log"] }
TOML
    rm -f Cargo.lock
    echo "aws-sdk-dynamodb $version"
    cargo run --quiet
done
