//! What a subscription reports, as Arrays for Ruby: `[:batch, batch]`, `[:eof, topic, partition, offset]`.

use crate::{batch, error, value};
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, RArray, Ruby, Value};
use pelton_core::subscription::{SubscriptionEvent, TopicPartition};

pub(super) fn event_row(ruby: &Ruby, event: SubscriptionEvent) -> Result<Value, Error> {
    let row = match event {
        SubscriptionEvent::Batch(batch) => {
            let batch = batch::wrap(batch)?;
            ruby.ary_new_from_values(&[ruby.to_symbol("batch").as_value(), batch])
        }
        SubscriptionEvent::Assigned(partitions) => {
            let row = ruby.ary_new_capa(2);
            row.push(ruby.to_symbol("assigned"))?;
            row.push(list(ruby, &partitions)?)?;
            row
        }
        SubscriptionEvent::Revoked { token, partitions, lost } => {
            let row = ruby.ary_new_capa(4);
            row.push(ruby.to_symbol("revoked"))?;
            row.push(token)?;
            row.push(list(ruby, &partitions)?)?;
            row.push(lost)?;
            row
        }
        SubscriptionEvent::Error { error, partition } => {
            let row = ruby.ary_new_capa(4);
            row.push(ruby.to_symbol("error"))?;
            row.push(error::kafka_error(ruby, &error)?)?;
            row.push(partition.as_ref().map(|(topic, _)| value::interned(topic)).transpose()?)?;
            row.push(partition.map(|(_, number)| number))?;
            row
        }
        SubscriptionEvent::EndOfPartition { topic, partition, offset } => {
            let row = ruby.ary_new_capa(4);
            row.push(ruby.to_symbol("eof"))?;
            row.push(value::interned(&topic)?)?;
            row.push(partition)?;
            row.push(offset)?;
            row
        }
        SubscriptionEvent::Closed => ruby.ary_new_from_values(&[ruby.to_symbol("closed").as_value()]),
    };
    Ok(row.as_value())
}

/// `[[topic, partition], …]`
pub(super) fn list(ruby: &Ruby, partitions: &[TopicPartition]) -> Result<RArray, Error> {
    let rows = ruby.ary_new_capa(partitions.len());
    for (topic, number) in partitions {
        rows.push(ruby.ary_new_from_values(&[value::interned(topic)?, number.into_value_with(ruby)]))?;
    }
    Ok(rows)
}
