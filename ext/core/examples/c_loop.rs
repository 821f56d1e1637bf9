//! The limits to measure Pelton against: librdkafka driven as its own `rdkafka_performance` drives it, by one thread
//! with callbacks, nothing of Pelton in between. Prints its numbers.
//!
//! ```text
//! c_loop produce BOOTSTRAP TOPIC COUNT SIZE [key=value …]   messages/s until the last report
//! c_loop sync    BOOTSTRAP TOPIC COUNT SIZE [key=value …]   p50 µs of produce + wait for its report
//! c_loop consume BOOTSTRAP TOPIC COUNT      [key=value …]   messages/s from the first message on
//! c_loop latency BOOTSTRAP TOPIC COUNT RATE PARTITIONS [key=value …, the consumer's]   µs from produce to consume,
//!     in the order of arrival; RATE messages per second, and each is waited for
//! ```

use pelton_core as _; // for the linker: the core's build.rs redirects a call of librdkafka's to it
use rdkafka_sys as sys;
use std::ffi::{CString, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

/// The start of all times.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
static REPORTED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn report(_: *mut sys::rd_kafka_t, message: *const sys::rd_kafka_message_t, _: *mut c_void) {
    // SAFETY: librdkafka passes a live message; the code is read as an integer.
    if unsafe { std::ptr::addr_of!((*message).err).cast::<i32>().read() } != 0 {
        FAILED.fetch_add(1, Ordering::Relaxed);
    }
    REPORTED.fetch_add(1, Ordering::Relaxed);
}

fn client(kind: sys::rd_kafka_type_t, bootstrap: &str, options: &[String]) -> *mut sys::rd_kafka_t {
    // SAFETY: a new conf, live strings, a buffer with its length; the conf is librdkafka's after rd_kafka_new.
    unsafe {
        let conf = sys::rd_kafka_conf_new();
        let mut reason = [0 as c_char; 512];
        let mut set = |key: &str, value: &str| {
            let (key, value) = (CString::new(key).expect("key"), CString::new(value).expect("value"));
            let code = sys::rd_kafka_conf_set(conf, key.as_ptr(), value.as_ptr(), reason.as_mut_ptr(), reason.len());
            assert_eq!(0, code as i32, "{key:?}={value:?}");
        };
        set("bootstrap.servers", bootstrap);
        for option in options {
            let (key, value) = option.split_once('=').expect("key=value");
            set(key, value);
        }
        if kind as i32 == sys::rd_kafka_type_t::RD_KAFKA_PRODUCER as i32 {
            sys::rd_kafka_conf_set_dr_msg_cb(conf, Some(report));
        }
        let client = sys::rd_kafka_new(kind, conf, reason.as_mut_ptr(), reason.len());
        assert!(!client.is_null(), "no client");
        client
    }
}

fn produce(bootstrap: &str, topic: &str, count: u64, size: usize, options: &[String], wait_for_each: bool) -> f64 {
    let client = client(sys::rd_kafka_type_t::RD_KAFKA_PRODUCER, bootstrap, options);
    let topic = CString::new(topic).expect("topic");
    let payload = vec![b'x'; size];
    // SAFETY: live client and topic; payloads are copied; both are destroyed at the end.
    unsafe {
        let topic = sys::rd_kafka_topic_new(client, topic.as_ptr(), std::ptr::null_mut());
        let send = || {
            loop {
                let code = sys::rd_kafka_produce(
                    topic,
                    -1,
                    sys::RD_KAFKA_MSG_F_COPY,
                    payload.as_ptr().cast_mut().cast(),
                    payload.len(),
                    std::ptr::null(),
                    0,
                    std::ptr::null_mut(),
                );
                if code == 0 {
                    return;
                }
                sys::rd_kafka_poll(client, 10);
            }
        };
        // Connected, and the topic's partitions known, before the clock runs.
        send();
        sys::rd_kafka_flush(client, 30_000);
        assert_eq!(1, REPORTED.load(Ordering::Relaxed), "no broker");
        let begun = Instant::now();
        let mut waits = Vec::new();
        for sent in 1..=count {
            let one = Instant::now();
            send();
            if wait_for_each {
                while REPORTED.load(Ordering::Relaxed) <= sent {
                    sys::rd_kafka_poll(client, 1000);
                }
                waits.push(one.elapsed());
            } else if sent % 128 == 0 {
                sys::rd_kafka_poll(client, 0);
            }
        }
        while REPORTED.load(Ordering::Relaxed) <= count {
            sys::rd_kafka_poll(client, 100);
        }
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(0, FAILED.load(Ordering::Relaxed), "messages failed");
        sys::rd_kafka_topic_destroy(topic);
        sys::rd_kafka_destroy(client);
        if wait_for_each {
            waits.sort();
            return waits[waits.len() / 2].as_secs_f64() * 1e6;
        }
        count as f64 / seconds
    }
}

/// Reads in a new group until `seen` says that it is enough; it gets each payload.
fn read(bootstrap: &str, topic: &str, options: &[String], mut seen: impl FnMut(&[u8]) -> bool) {
    let mut options = options.to_vec();
    options.push("auto.offset.reset=earliest".into());
    options.push("enable.auto.commit=false".into());
    options.push(format!("group.id=c-loop-{}", std::process::id()));
    let client = client(sys::rd_kafka_type_t::RD_KAFKA_CONSUMER, bootstrap, &options);
    let topic = CString::new(topic).expect("topic");
    // SAFETY: live handles; every message is destroyed once; everything is destroyed at the end.
    unsafe {
        sys::rd_kafka_poll_set_consumer(client);
        let list = sys::rd_kafka_topic_partition_list_new(1);
        sys::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), -1);
        sys::rd_kafka_subscribe(client, list);
        sys::rd_kafka_topic_partition_list_destroy(list);
        let queue = sys::rd_kafka_queue_get_consumer(client);
        let mut messages = vec![std::ptr::null_mut(); 1000];
        let mut enough = false;
        while !enough {
            // The whole batch, or what there is; rd_kafka_consume_batch_queue waits for a full one or the timeout.
            let mut came = sys::rd_kafka_consume_batch_queue(queue, 0, messages.as_mut_ptr(), messages.len());
            if came == 0 {
                came = sys::rd_kafka_consume_batch_queue(queue, 100, messages.as_mut_ptr(), 1);
            }
            for message in &messages[..came.max(0) as usize] {
                if std::ptr::addr_of!((**message).err).cast::<i32>().read() == 0 {
                    enough = seen(std::slice::from_raw_parts((**message).payload.cast(), (**message).len));
                }
                sys::rd_kafka_message_destroy(*message);
            }
        }
        sys::rd_kafka_queue_destroy(queue);
        sys::rd_kafka_consumer_close(client);
        sys::rd_kafka_destroy(client);
    }
}

fn consume(bootstrap: &str, topic: &str, count: usize, options: &[String]) -> f64 {
    let (mut seen, mut begun, mut ended, mut bytes) = (0, None, None, 0);
    read(bootstrap, topic, options, |payload| {
        begun.get_or_insert_with(Instant::now);
        seen += 1;
        bytes += payload.len();
        if seen == count {
            ended = Some(Instant::now());
        }
        seen >= count
    });
    assert!(bytes > 0);
    count as f64 / (ended.expect("an end") - begun.expect("a message")).as_secs_f64()
}

/// Sends a message to each partition, and the others, each with its time, once the first have come back.
fn send_times(bootstrap: &str, topic: &str, count: u64, rate: u64, partitions: u64, begin: &mpsc::Receiver<()>) {
    let client = client(sys::rd_kafka_type_t::RD_KAFKA_PRODUCER, bootstrap, &["acks=all".into(), "linger.ms=0".into()]);
    let topic = CString::new(topic).expect("topic");
    // SAFETY: live client and topic; payloads are copied; both are destroyed at the end.
    unsafe {
        let topic = sys::rd_kafka_topic_new(client, topic.as_ptr(), std::ptr::null_mut());
        let send = |number: u64, payload: &[u8]| {
            let (data, size) = (payload.as_ptr().cast_mut().cast(), payload.len());
            let (partition, none) = ((number % partitions) as i32, std::ptr::null_mut());
            let copy = sys::RD_KAFKA_MSG_F_COPY;
            assert_eq!(0, sys::rd_kafka_produce(topic, partition, copy, data, size, none, 0, none));
            let reported = REPORTED.load(Ordering::Relaxed);
            while REPORTED.load(Ordering::Relaxed) == reported {
                sys::rd_kafka_poll(client, 1000);
            }
        };
        (0..partitions).for_each(|number| send(number, b"0"));
        begin.recv().expect("the reader");
        let start = Instant::now();
        for number in 0..count {
            let due = start + Duration::from_secs_f64(number as f64 / rate as f64);
            let early = due.saturating_duration_since(Instant::now());
            // Nothing more comes. Who is late because an earlier one was waited for has been due since then.
            let time =
                if early.is_zero() { due } else { begin.recv_timeout(early).map_or_else(|_| Instant::now(), |()| due) };
            send(number, &((time - *EPOCH).as_nanos() as u64).to_le_bytes());
        }
        assert_eq!(0, FAILED.load(Ordering::Relaxed), "messages failed");
        sys::rd_kafka_topic_destroy(topic);
        sys::rd_kafka_destroy(client);
    }
}

fn latency(bootstrap: &str, topic: &str, count: u64, rate: u64, partitions: u64, options: &[String]) -> Vec<f64> {
    let (begin, begun) = mpsc::channel();
    let (mut first, mut times) = (0, Vec::new());
    LazyLock::force(&EPOCH);
    std::thread::scope(|scope| {
        scope.spawn(move || send_times(bootstrap, topic, count, rate, partitions, &begun));
        read(bootstrap, topic, options, |payload| {
            if let Ok(sent) = payload.try_into().map(u64::from_le_bytes) {
                times.push((EPOCH.elapsed().as_nanos() as u64 - sent) as f64 / 1e3);
            } else {
                first += 1;
                if first == partitions {
                    begin.send(()).expect("the sender");
                }
            }
            times.len() as u64 == count
        });
    });
    times
}

pub fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |index: usize| args[index].parse::<u64>().expect("a number");
    let values = match args.get(1).map(String::as_str) {
        Some("produce") => vec![produce(&args[2], &args[3], number(4), number(5) as usize, &args[6..], false)],
        Some("sync") => vec![produce(&args[2], &args[3], number(4), number(5) as usize, &args[6..], true)],
        Some("consume") => vec![consume(&args[2], &args[3], number(4) as usize, &args[5..])],
        Some("latency") => latency(&args[2], &args[3], number(4), number(5), number(6), &args[7..]),
        _ => {
            eprintln!("c_loop produce|sync BOOTSTRAP TOPIC COUNT SIZE [key=value …]");
            eprintln!("c_loop consume BOOTSTRAP TOPIC COUNT [key=value …]");
            eprintln!("c_loop latency BOOTSTRAP TOPIC COUNT RATE PARTITIONS [key=value …]");
            std::process::exit(2);
        }
    };
    values.iter().for_each(|value| println!("{value:.1}"));
}
