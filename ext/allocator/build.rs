//! The C loop with this allocator is linked as the extension is (ext/pelton/build.rs).

include!("wrapped.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=wrapped.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        for name in WRAPPED {
            println!("cargo:rustc-link-arg-examples=-Wl,--wrap={name}");
        }
    }
}
