//! A subscription without a group. It reads what its owner assigns, commits nothing, and needs no coordinator.

use super::Subscription;
use crate::error::{Error, KafkaError};
use crate::rd::{Conf, NO_GROUP, codes};

impl Subscription {
    /// For calls that need a group.
    pub fn check_group(&self) -> Result<(), Error> {
        if self.member.has_group {
            return Ok(());
        }
        Err(Error::from((codes::UNKNOWN_GROUP, "the subscription has no group".to_owned())))
    }

    /// A build without `--wrap` asks for the coordinator. That Kafka refuses it concerns nobody.
    pub(super) fn is_irrelevant(&self, error: &KafkaError) -> bool {
        !self.member.has_group && error.code == codes::GROUP_AUTHORIZATION_FAILED
    }
}

/// Options without a `group.id` are those of a subscription without a group. Returns whether there is one.
pub(super) fn prepare(conf: &mut Conf) -> Result<bool, Error> {
    if conf.get("group.id").is_some_and(|group| !group.is_empty()) {
        return Ok(true);
    }
    for (key, value) in [("group.id", NO_GROUP), ("enable.auto.commit", "false")] {
        conf.set(key, value).map_err(|reason| Error::from((codes::INVALID_ARG, reason)))?;
    }
    Ok(false)
}
