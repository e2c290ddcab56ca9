//! Random steps on a tree and on a sorted map.

#![no_main]

#[path = "../steps.rs"]
mod steps;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut compared = steps::Compared::default();
    compared.run(bytes);
    let keys: Vec<_> = (0..20_u8).map(|i| steps::key(u32::from(i) * 37, u32::from(i) % 4, i % 8)).collect();
    compared.assert_equal(&keys);
});
