#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (nearside_fuzz::find("sniff").run)(data);
});
