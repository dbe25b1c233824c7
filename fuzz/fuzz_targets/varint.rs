#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (nearside_fuzz::find("varint").run)(data);
});
