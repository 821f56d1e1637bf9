//! Why a TLS connection was refused. librdkafka advises to look at `ssl.ca.location` whatever is wrong with a broker's
//! certificate, and repeats the broker's alert about ours without a word on whose certificate it is.

use super::{PerProcess, sys};
use crate::lock;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

/// Brokers whose last refusal is remembered, the newest at the end.
const MOST: usize = 256;
const REFUSED: &str = "certificate verify failed";
const ADVICE: &str = ": broker certificate could not be verified";
/// `" (after 3ms in state SSL_HANDSHAKE)"`, at the end of an error.
const TIME: &str = " (after ";
/// What a broker's alert says about a client's certificate.
const ALERTS: [&str; 6] = [
    "alert certificate required",
    "alert certificate expired",
    "alert certificate revoked",
    "alert certificate unknown",
    "alert bad certificate",
    "alert unknown ca",
];

/// `("kafka-1:9093", a reason)`. An error's text names its broker, and no client.
static REASONS: PerProcess<Mutex<VecDeque<(String, Reason)>>> = PerProcess::new();

/// OpenSSL's number (`X509_V_ERR_*`), and the certificate's place in the chain: 0 is the broker's own.
#[derive(Clone, Copy)]
struct Reason {
    error: c_int,
    depth: c_int,
}

impl Reason {
    /// The chain ends at no trusted authority. Then librdkafka's advice is right.
    fn is_about_trust(self) -> bool {
        matches!(self.error, 2 | 18..=21)
    }

    fn text(self) -> String {
        let whose = if self.depth == 0 { "the broker's certificate" } else { "the certificate of an authority" };
        match self.error {
            3 => format!("ssl.crl.location has no list of the authority of {whose}"),
            9 => format!("{whose} is not valid yet"),
            10 => format!("{whose} has expired"),
            11 => "the list in ssl.crl.location is not valid yet".into(),
            12 => "the list in ssl.crl.location has expired".into(),
            18 => format!("{whose} is self-signed, and not trusted"),
            23 => format!("{whose} was revoked"),
            62 => format!("{whose} is for another host name"),
            64 => format!("{whose} is for another IP address"),
            _ if self.is_about_trust() => format!("{whose} was signed by no trusted authority"),
            other => format!("{whose} is refused with OpenSSL's error {other}"),
        }
    }
}

/// Remembers why OpenSSL refuses a certificate, and changes nothing about that.
///
/// # Safety
/// librdkafka's contract: live strings, a place for the error, and one of that size for its text.
pub(super) unsafe extern "C" fn remember(
    _client: *mut sys::rd_kafka_t,
    broker: *const c_char,
    _broker_id: i32,
    error: *mut c_int,
    depth: c_int,
    _certificate: *const c_char,
    _size: usize,
    reason: *mut c_char,
    room: usize,
    _opaque: *mut c_void,
) -> c_int {
    // SAFETY: as promised.
    let (error, broker) = unsafe { (*error, super::text(broker)) };
    if error == 0 {
        return 1;
    }
    let found = Reason { error, depth };
    let text = found.text();
    let length = text.len().min(room.saturating_sub(1));
    if room > 0 {
        // SAFETY: at most the room, with the zero at its end.
        unsafe {
            text.as_ptr().copy_to_nonoverlapping(reason.cast(), length);
            *reason.add(length) = 0;
        }
    }
    note(broker, found);
    0
}

fn note(broker: String, found: Reason) {
    let mut reasons = lock(REASONS.get_or_init(Mutex::default));
    reasons.retain(|(older, _)| *older != broker);
    if reasons.len() >= MOST {
        reasons.pop_front();
    }
    reasons.push_back((broker, found));
}

/// The text of an error, with the reason if it is about a certificate.
pub(super) fn explained(mut text: String) -> String {
    if let Some(at) = text.find(REFUSED) {
        let Some(reason) = reason_of(&text) else { return text };
        let end = at + REFUSED.len();
        if !reason.is_about_trust() && text[end..].starts_with(ADVICE) {
            let advised = text[end..].find(TIME).map_or(text.len(), |time| end + time);
            text.replace_range(end..advised, "");
        }
        text.insert_str(end, &format!(": {}", reason.text()));
    } else if ALERTS.iter().any(|alert| text.contains(alert)) {
        let at = text.find(TIME).unwrap_or(text.len());
        text.insert_str(at, ": the broker says so of this client's certificate (ssl.certificate.location)");
    }
    text
}

/// `"ssl://kafka-1:9093/bootstrap: SSL handshake failed: …"`
fn reason_of(text: &str) -> Option<Reason> {
    let reasons = lock(REASONS.get_or_init(Mutex::default));
    let named = |broker: &str| {
        text.match_indices(broker).any(|(at, _)| {
            let (before, after) = (text[..at].chars().next_back(), text[at + broker.len()..].chars().next());
            matches!(before, None | Some('/' | ' ')) && matches!(after, Some('/' | ':'))
        })
    };
    reasons.iter().rev().find(|(broker, _)| named(broker)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: &str = "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker \
                         certificate could not be verified, verify that ssl.ca.location is correctly configured";

    fn told(broker: &str, error: c_int, depth: c_int) -> String {
        note(broker.into(), Reason { error, depth });
        explained(format!("ssl://{broker}/bootstrap: {ERROR} (after 3ms in state SSL_HANDSHAKE)"))
    }

    #[test]
    fn the_reason_stands_in_the_place_of_advice_that_would_not_help() {
        let expected = "ssl://one:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate \
                        verify failed: the broker's certificate has expired (after 3ms in state SSL_HANDSHAKE)";
        assert_eq!(expected, told("one:9093", 10, 0));
        assert!(told("one:9093", 10, 1).contains("verify failed: the certificate of an authority has expired (after"));
        for error in [3, 9, 11, 12, 23, 26, 62, 64] {
            assert!(!told("one:9093", error, 0).contains("ssl.ca.location"), "{error}");
        }
    }

    #[test]
    fn the_advice_stays_where_no_authority_is_trusted() {
        for error in [2, 18, 19, 20, 21] {
            let text = told("two:9093", error, 0);
            assert!(text.contains(": broker certificate could not be verified, verify that ssl.ca.location"), "{text}");
            assert!(text.contains("trusted"), "{text}");
        }
    }

    #[test]
    fn a_reason_is_that_of_the_broker_in_the_text() {
        note("three:9093".into(), Reason { error: 10, depth: 0 });
        let text = |broker: &str| format!("{broker}: {ERROR}");
        assert!(explained(text("GroupCoordinator: three:9093")).contains("expired"));
        for other in ["ssl://three:90930/1", "ssl://othree:9093/1", "four:1"] {
            assert_eq!(text(other), explained(text(other)));
        }
        assert_eq!("three:9093: no TLS", explained("three:9093: no TLS".into()));
    }

    #[test]
    fn an_alert_of_the_broker_names_the_client_s_certificate() {
        let text = "ssl://x:1/1: Receive failed: ssl/tls alert certificate expired: SSL alert number 45 (after 1ms in \
                    state UP)";
        let expected = text.replace(
            " (after",
            ": the broker says so of this client's certificate \
                                                (ssl.certificate.location) (after",
        );
        assert_eq!(expected, explained(text.into()));
    }

    #[test]
    fn a_limited_number_of_brokers_is_remembered() {
        for number in 0..=MOST {
            note(format!("many-{number}:1"), Reason { error: 10, depth: 0 });
        }
        assert!(lock(REASONS.get_or_init(Mutex::default)).len() <= MOST);
    }
}
