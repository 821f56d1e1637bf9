//! The C loop of ext/core/examples with the extension's allocator, so that the benches can tell what of Pelton's speed
//! is the allocator's.

use pelton_allocator as _;

#[path = "../../core/examples/c_loop.rs"]
mod c_loop;

fn main() {
    c_loop::main();
}
