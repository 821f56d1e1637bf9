//! Pelton's extension: pelton-core with a Ruby face. Each Ruby class has a file here, which converts arguments and
//! results. `gvl` waits, and `value` makes Ruby objects. pelton-core decides what to ask Kafka, and when.
//! lib/pelton/runtime/native.rb loads the extension after the Ruby parts of the classes that it fills.

#![deny(unsafe_code)]
#![warn(clippy::too_many_lines)] // more than 40: clippy.toml

mod admin;
mod avro_schema;
mod avro_topic;
mod batch;
mod call_counts;
mod call_meter;
mod convert;
mod datum;
mod delivery;
mod embedded_cluster;
mod error;
mod filter;
mod format;
mod given_partition;
#[allow(unsafe_code)]
mod gvl;
mod message;
mod native;
mod oauth;
mod poller;
mod producer;
mod room;
mod rows;
mod send_times;
mod statistics;
mod subscription;
mod transaction;
#[allow(unsafe_code)]
mod value;

use magnus::{Error, Module, Ruby};

#[magnus::init(name = "pelton")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    #[cfg(own_allocator)]
    let _ = pelton_core::poller::GIVE_BACK_MEMORY.set(pelton_allocator::give_back);
    value::set_up(ruby)?;
    rows::set_up(ruby);
    let pelton = ruby.define_module("Pelton")?;
    delivery::define(ruby, pelton)?;
    message::define(ruby, pelton)?;
    batch::define(ruby, pelton)?;
    let native = pelton.define_module("Native")?;
    native::define(ruby, native)?;
    avro_schema::define(ruby, native)?;
    avro_topic::define(ruby, native)?;
    poller::define(ruby, native)?;
    transaction::define(producer::define(ruby, native)?)?;
    subscription::define(ruby, native)?;
    given_partition::define(ruby, native)?;
    call_counts::define(ruby, native)?;
    call_meter::define(ruby, native)?;
    send_times::define(ruby, native)?;
    admin::define(ruby, native)?;
    embedded_cluster::define(ruby, native)
}
