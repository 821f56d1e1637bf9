//! Pelton's extension: pelton-core with a Ruby face. One file per Ruby class converts arguments and results; `gvl` waits,
//! and `value` makes Ruby objects, which needs `unsafe`. What Kafka is asked, and when, is decided in pelton-core.
//! lib/pelton/native.rb loads the extension after the Ruby parts of the classes that it fills.

#[forbid(unsafe_code)]
mod admin;
#[forbid(unsafe_code)]
mod avro_schema;
#[forbid(unsafe_code)]
mod avro_topic;
#[forbid(unsafe_code)]
mod batch;
#[forbid(unsafe_code)]
mod convert;
#[forbid(unsafe_code)]
mod datum;
#[forbid(unsafe_code)]
mod delivery;
#[forbid(unsafe_code)]
mod embedded_cluster;
#[forbid(unsafe_code)]
mod error;
#[forbid(unsafe_code)]
mod filter;
#[forbid(unsafe_code)]
mod format;
mod gvl;
#[forbid(unsafe_code)]
mod message;
#[forbid(unsafe_code)]
mod native;
#[forbid(unsafe_code)]
mod oauth;
#[forbid(unsafe_code)]
mod poller;
#[forbid(unsafe_code)]
mod producer;
#[forbid(unsafe_code)]
mod room;
#[forbid(unsafe_code)]
mod rows;
#[forbid(unsafe_code)]
mod statistics;
#[forbid(unsafe_code)]
mod subscription;
#[forbid(unsafe_code)]
mod transaction;
mod value;

use magnus::{Error, Module, Ruby};

#[magnus::init(name = "pelton")]
fn init(ruby: &Ruby) -> Result<(), Error> {
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
    admin::define(ruby, native)?;
    embedded_cluster::define(ruby, native)
}
