//! Makes `cfg(ruby_gte_3_2)` and its like, from what rb-sys reports about the Ruby that it was built for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for version in ["3_2", "3_3", "3_4", "4_0"] {
        println!("cargo:rustc-check-cfg=cfg(ruby_gte_{version})");
        if std::env::var(format!("DEP_RB_VERSION_GTE_{version}")).as_deref() == Ok("true") {
            println!("cargo:rustc-cfg=ruby_gte_{version}");
        }
    }
}
