//! Turns plain strings into a librdkafka configuration. Errors name the key, the value and the allowed values.
//!
//! Which values are secret is Ruby's to say (lib/pelton/runtime/secrets.rb): here a value stands by
//! itself, and in no sentence.

use crate::error::Error;
use crate::rd::Conf;

/// Where certificate authorities come from. The OpenSSL in the extension was built for no distribution, so it finds no
/// certificates by itself. Therefore librdkafka searches the usual places ("probe").
const AUTHORITIES: [&str; 4] = ["ssl.ca.location", "ssl.ca.pem", "ssl_ca", "ssl.ca.certificate.stores"];
/// Where systems keep them: Debian, Red Hat, SUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// librdkafka fetches tokens itself (OIDC) only where it is built with libcurl.
const OIDC: &str = "this build of librdkafka has no OIDC (it is built without libcurl): set config.oauth to a callable \
                    that fetches the token, and leave out the options of OIDC; or build Pelton with PELTON_FEATURES=oidc";
/// Environment variables that name OpenSSL's certificates.
const OPENSSL_PLACES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// A librdkafka configuration of these options; later ones win.
pub fn build<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Conf, Error> {
    build_within(options, OPENSSL_PLACES.iter().any(|name| std::env::var_os(name).is_some_and(|path| !path.is_empty())))
}

/// `named`: the environment names the certificate authorities.
fn build_within<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>, named: bool) -> Result<Conf, Error> {
    let mut conf = Conf::new();
    let mut given = named;
    for (key, value) in options {
        // A build without OIDC refuses even the name of the method that it has.
        if let Err(reason) = conf.set(key, value)
            && (key, value) != ("sasl.oauthbearer.method", "default")
        {
            return Err(explain(key, value, &reason));
        }
        given |= AUTHORITIES.contains(&key);
    }
    if !given {
        let _ = conf.set("ssl.ca.location", "probe");
    }
    name_authorities_of_oidc(&mut conf);
    conf.explain_certificates();
    Ok(conf)
}

/// Gives libcurl a path. Otherwise librdkafka calls functions of its own OpenSSL for a context of libcurl's, which is
/// another one, and the process crashes.
fn name_authorities_of_oidc(conf: &mut Conf) {
    let given = |key, none: &[&str]| conf.get(key).is_some_and(|value| !none.contains(&&*value));
    if given("sasl.oauthbearer.method", &["default"])
        && !given("https.ca.location", &["", "probe"])
        && !given("https.ca.pem", &[""])
    {
        let named = std::env::var(OPENSSL_PLACES[0]).ok().filter(|path| !path.is_empty());
        let found = BUNDLES.into_iter().find(|path| std::path::Path::new(path).exists());
        let _ = conf.set("https.ca.location", named.as_deref().or(found).unwrap_or(BUNDLES[0]));
    }
}

/// What `rd_kafka_new` says of options that do not go together, or of a key or certificate that can't be read.
pub(crate) fn refused(mut reason: String) -> Error {
    if reason.contains("No provider for SASL mechanism GSSAPI") {
        reason.push_str("; build Pelton with PELTON_FEATURES=gssapi");
    }
    Error::Config { key: "kafka".into(), value: None, reason }
}

fn explain(key: &str, value: &str, reason: &str) -> Error {
    if (key == "sasl.oauthbearer.method" && value.eq_ignore_ascii_case("oidc"))
        || reason.contains("on libcurl and OpenSSL")
    {
        return Error::Config { key: key.into(), value: Some(value.into()), reason: OIDC.into() };
    }
    let properties = Conf::properties();
    let reason = match properties.iter().find(|property| property.name == key) {
        Some(property) if !property.range.is_empty() => format!("allowed: {}", property.range),
        Some(_) if repeats(reason, value) => "not accepted".into(),
        Some(_) => reason.into(),
        None => {
            let nearest = properties.iter().min_by_key(|property| distance(&property.name, key));
            let hint = nearest.filter(|property| distance(&property.name, key) <= 3 + key.len() / 4);
            match hint {
                Some(property) => format!("unknown option of librdkafka; did you mean {:?}?", property.name),
                None => "unknown option of librdkafka".into(),
            }
        }
    };
    Error::Config { key: key.into(), value: Some(value.into()), reason }
}

/// Whether librdkafka's own sentence contains the value, or the start of it, because it cuts long ones off.
fn repeats(reason: &str, value: &str) -> bool {
    let start: String = value.chars().take(6).collect();
    !start.is_empty() && reason.contains(&start)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why; key and value are as they were given.
    fn refused(key: &str, value: &str) -> String {
        let error = build([(key, value)]).err();
        let Some(Error::Config { key: named, value: Some(shown), reason }) = &error else { panic!("{key}: {error:?}") };
        assert_eq!((&**named, &**shown), (key, value));
        reason.clone()
    }

    #[test]
    fn an_error_says_what_is_allowed() {
        assert!(refused("bootstrap.server", "x").contains("bootstrap.servers"));
        assert!(refused("linger.ms", "9999999").contains("0 .. 900000"));
        assert!(refused("compression.codec", "brotli").contains("zstd"));
        assert!(refused("nothing.like.this.at.all.in.kafka", "1").ends_with("unknown option of librdkafka"));
    }

    #[test]
    fn oidc_is_refused_with_the_way_to_go_in_its_place() {
        let options = [
            ("sasl.oauthbearer.method", "oidc"),
            ("sasl.oauthbearer.method", "OIDC"),
            ("sasl.oauthbearer.client.id", "me"),
            ("sasl.oauthbearer.token.endpoint.url", "https://x"),
            ("https.ca.location", "/x.pem"),
            ("https.ca.pem", "-----BEGIN"),
        ];
        for (key, value) in options {
            assert!(refused(key, value).contains("set config.oauth"), "{key}");
        }
        assert!(build([("sasl.oauthbearer.method", "default")]).is_ok());
    }

    #[test]
    fn authorities_are_looked_for_unless_the_user_or_the_environment_names_them() {
        let location = |options: &[(&str, &str)], named| {
            build_within(options.iter().copied(), named).expect("good options").get("ssl.ca.location")
        };
        assert_eq!(Some("probe"), location(&[], false).as_deref());
        assert_eq!(Some("probe"), location(&[("security.protocol", "ssl")], false).as_deref());
        assert_eq!(Some("/etc/mine.pem"), location(&[("ssl.ca.location", "/etc/mine.pem")], false).as_deref());
        assert_ne!(
            Some("probe"),
            location(&[("ssl.ca.location", "")], false).as_deref(),
            "OpenSSL's default, as configured"
        );
        assert_ne!(Some("probe"), location(&[("ssl.ca.pem", "-----BEGIN")], false).as_deref());
        assert_ne!(Some("probe"), location(&[("security.protocol", "ssl")], true).as_deref());
    }

    /// The code that shows an error decides whether to show its value; nothing else repeats it.
    #[test]
    fn a_value_is_in_no_sentence() {
        let values = ["hunter2".to_owned(), "hunter2\0".to_owned(), "hunter2 ".repeat(100)];
        let keys: Vec<String> = Conf::properties().into_iter().map(|property| property.name).collect();
        let mut refused = 0;
        for (key, value) in keys.iter().flat_map(|key| values.iter().map(move |value| (key, value))) {
            if let Err(error) = build([(&**key, &**value)]) {
                let Error::Config { reason, .. } = &error else { panic!("{error}") };
                assert!(!reason.contains("hunter2") && !error.to_string().contains("hunter2"), "{error}");
                refused += 1;
            }
        }
        assert!(refused > 200, "{refused} refused");
    }

    #[test]
    fn a_name_is_suggested_only_for_one_that_is_like_it() {
        for (name, meant) in
            [("lingr.ms", "linger.ms"), ("ms.linger", "linger.ms"), ("compresion.codec", "compression.codec")]
        {
            let suggested = refused(name, "1");
            assert_eq!(name != "ms.linger", suggested.contains(&format!("did you mean {meant:?}")), "{suggested}");
        }
    }

    #[test]
    fn distance_counts_added_missing_and_changed_characters() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("a", "a", 0),
            ("ab", "ba", 2),
            ("flaw", "lawn", 2),
            ("kitten", "sitting", 3),
            ("linger.ms", "lingerms", 1),
        ] {
            assert_eq!([expected; 2], [distance(a, b), distance(b, a)], "{a} {b}");
        }
    }
}
