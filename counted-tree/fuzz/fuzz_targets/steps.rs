//! Random steps on a tree and on a sorted map.

#![no_main]

#[path = "../steps.rs"]
mod steps;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let keys: Vec<_> = (0..20_u8).map(|i| steps::key(u32::from(i) * 37, u32::from(i) % 4, i % 8)).collect();
    let (mut large, mut small) = (steps::Large::default(), steps::Small::default());
    large.run(bytes);
    large.assert_equal(&keys);
    small.run(bytes);
    small.assert_equal(&keys);
});
