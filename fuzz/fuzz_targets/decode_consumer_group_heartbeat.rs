#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (nearside_fuzz::find("decode_consumer_group_heartbeat").run)(data);
});
