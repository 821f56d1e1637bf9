//! Keeps librdkafka from pausing partitions during a rebalance.
//!
//! librdkafka pauses all partitions of a member from the event of a rebalance until its answer, also those that stay.
//! Usually the answer comes at once. Pelton's answer waits for the running jobs of the revoked partitions, and the
//! others would get no messages for as long. So the linker's `--wrap` puts these two functions in front, which do
//! nothing. What is revoked is neither read nor fetched by then (`Partition::close`).
//!
//! Both have to be replaced: a resume makes what was fetched before it outdated, and only the pause notes where
//! fetching has to go on.

use std::ffi::{c_char, c_void};

#[unsafe(export_name = "__wrap_rd_kafka_assignment_pause")]
extern "C" fn pause(_client: *mut c_void, _reason: *const c_char) {}

#[unsafe(export_name = "__wrap_rd_kafka_assignment_resume")]
extern "C" fn resume(_client: *mut c_void, _reason: *const c_char) {}
