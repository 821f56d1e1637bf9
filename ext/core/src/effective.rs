//! Which options a client would really work with: librdkafka's defaults, ours, the user's, and what follows from them
//! (idempotence sets `acks`, say). Only a client knows, so one is made for the question.

use crate::config;
use crate::error::Error;
use crate::producer;
use crate::rd::{Client, ClientKind, Conf};
use crate::subscription;
use std::collections::{BTreeMap, HashMap};

/// All options that librdkafka documents for this kind of client, secrets included, by each of their names. Reads keys
/// and certificates; connects to no broker. Blocks for librdkafka's time to start and stop.
pub fn options<'a>(
    kind: ClientKind,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeMap<String, String>, Error> {
    // Without an address it has no broker to connect to.
    let (servers, rest): (Vec<_>, Vec<_>) = settings.into_iter().partition(|(name, _)| is_address(name));
    let conf = match kind {
        ClientKind::Producer => producer::prepare(rest)?,
        ClientKind::Consumer => subscription::prepare(rest)?,
    };
    let client = Client::new(kind, conf).map_err(config::refused)?;
    let reported: HashMap<String, String> = client.options().into_iter().collect();
    let properties = Conf::properties().into_iter().filter(|property| property.is_of(kind));
    let mut options: BTreeMap<_, _> = properties
        .filter_map(|property| Some((property.name.clone(), reported.get(property.reported_as())?.clone())))
        .collect();
    options.extend(servers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(options)
}

fn is_address(name: &str) -> bool {
    matches!(name, "bootstrap.servers" | "metadata.broker.list")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: ClientKind, settings: &[(&str, &str)], name: &str) -> Option<String> {
        options(kind, settings.iter().copied()).expect("good options").remove(name)
    }

    #[test]
    fn defaults_and_derived_options_are_reported() {
        let consumer = |name| value(ClientKind::Consumer, &[("group.id", "g")], name);
        assert_eq!(Some("45000"), consumer("session.timeout.ms").as_deref());
        assert_eq!(Some("false"), consumer("enable.auto.offset.store").as_deref());
        assert_eq!(Some("largest"), consumer("auto.offset.reset").as_deref());
        let idempotent = [("enable.idempotence", "true"), ("bootstrap.servers", "nowhere:1")];
        let producer = |name| value(ClientKind::Producer, &idempotent, name);
        assert_eq!(Some("-1"), producer("acks").as_deref());
        assert_eq!(producer("acks"), producer("request.required.acks"));
        assert_eq!(Some("2147483647"), producer("message.send.max.retries").as_deref());
        assert_eq!(Some("nowhere:1"), producer("bootstrap.servers").as_deref());
        assert_eq!(None, producer("session.timeout.ms"), "the other kind's");
        assert_eq!(None, producer("resolve_cb"), "an address is nothing to read");
    }

    #[test]
    fn options_that_no_client_starts_with_are_an_error() {
        let refused = options(ClientKind::Producer, [("security.protocol", "ssl"), ("ssl.key.pem", "no key")]);
        assert!(refused.is_err());
    }
}
