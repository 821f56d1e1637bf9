//! From plain strings to a librdkafka configuration, with errors that name key, value and what is allowed.

use crate::error::Error;
use crate::rd::Conf;

/// What stands in an error where a secret's value would.
pub const FILTERED: &str = "[FILTERED]";

/// Whether an option's value must never be shown.
pub fn is_secret(key: &str) -> bool {
    const WORDS: &[&str] = &["password", "secret", "private", "key.pem", "token", "jaas", "sasl.oauthbearer.config"];
    let key = key.to_lowercase();
    WORDS.iter().any(|word| key.contains(word))
}

/// A librdkafka configuration of these options; later ones win.
pub fn build<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Conf, Error> {
    let mut conf = Conf::new();
    for (key, value) in options {
        if let Err(reason) = conf.set(key, value) {
            return Err(explain(key, value, &reason));
        }
    }
    Ok(conf)
}

/// What `rd_kafka_new` says of options that do not go together, or of a key or certificate that can't be read.
pub(crate) fn refused(reason: String) -> Error {
    Error::Config { key: "kafka".into(), value: FILTERED.into(), reason }
}

fn explain(key: &str, value: &str, reason: &str) -> Error {
    let secret = is_secret(key);
    let properties = Conf::properties();
    let reason = match properties.iter().find(|property| property.name == key) {
        Some(property) if !property.range.is_empty() => format!("allowed: {}", property.range),
        // librdkafka's own sentence repeats the value.
        Some(_) if secret => "not accepted".into(),
        Some(_) => reason.into(),
        None => {
            let nearest = properties.iter().min_by_key(|property| distance(&property.name, key));
            let hint = nearest.filter(|property| distance(&property.name, key) <= 3 + key.len() / 4);
            match hint {
                Some(property) => format!("no such option of librdkafka; did you mean {:?}?", property.name),
                None => "no such option of librdkafka".into(),
            }
        }
    };
    let value = if secret { FILTERED.into() } else { value.into() };
    Error::Config { key: key.into(), value, reason }
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

    fn refused(key: &str, value: &str) -> String {
        match build([(key, value)]) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{key} was accepted"),
        }
    }

    #[test]
    fn an_error_names_key_value_and_what_is_allowed() {
        let unknown = refused("bootstrap.server", "x");
        assert!(unknown.contains("bootstrap.server") && unknown.contains("bootstrap.servers"), "{unknown}");
        let range = refused("linger.ms", "9999999");
        assert!(range.contains("9999999") && range.contains("0 .. 900000"), "{range}");
        let choice = refused("compression.codec", "brotli");
        assert!(choice.contains("brotli") && choice.contains("zstd"), "{choice}");
        assert!(refused("nothing.like.this.at.all.in.kafka", "1").ends_with("no such option of librdkafka"));
    }

    #[test]
    fn a_secret_is_not_repeated() {
        let error = refused("sasl.passwords", "hunter2");
        assert!(error.contains(FILTERED) && !error.contains("hunter2"), "{error}");
    }
}
