//! Lets a client be the member (protocol `classic`) that it was before. If a broker does not answer for a session,
//! librdkafka forgets the member's id and joins as a new member. But a broker that was frozen or started again still
//! waits for the old one, until that one's session ends: the group has no partition for another 45 s. So the linker's
//! `--wrap` puts functions in front of two requests. If the last heartbeat has no answer, the next JoinGroup has its
//! id, as with Java's client. (One without an id would leave another member there if its answer is lost, too.) If Kafka
//! gives the client a new id anyway, LeaveGroup ends its former members. Kafka refuses that without harm for those that
//! it has ended itself.

use super::unanswered_heartbeat::{Handler, ReplyQueue};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;

/// librdkafka's `rd_kafkap_str_t`. The length of null is -1.
#[repr(C)]
struct ProtocolString {
    length: c_int,
    text: *const c_char,
}

// A client has one group, and sends all of these requests in its main thread.
thread_local! {
    /// The id in the last heartbeat, and those in later JoinGroups.
    static MEMBERS: RefCell<Vec<CString>> = const { RefCell::new(Vec::new()) };
    /// That heartbeat has no answer, and there was no JoinGroup since.
    static UNANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// A client that gets one id after the other, and nothing else, forgets the first ones.
const MOST_MEMBERS: usize = 8;

unsafe extern "C" {
    fn rd_kafka_LeaveGroupRequest(
        broker: *mut c_void,
        group: *const c_char,
        member: *const c_char,
        replies: ReplyQueue,
        handler: Option<Handler>,
        opaque: *mut c_void,
    );
    fn __real_rd_kafka_HeartbeatRequest(
        broker: *mut c_void,
        group: *const ProtocolString,
        generation: i32,
        member: *const ProtocolString,
        instance: *const ProtocolString,
        replies: ReplyQueue,
        handler: Handler,
        opaque: *mut c_void,
    );
    fn __real_rd_kafka_JoinGroupRequest(
        broker: *mut c_void,
        group: *const ProtocolString,
        member: *const ProtocolString,
        instance: *const ProtocolString,
        kind: *const c_void,
        topics: *const c_void,
        replies: ReplyQueue,
        handler: Handler,
        opaque: *mut c_void,
    );
}

/// librdkafka gives its heartbeats no opaque, and no id after it has forgotten it.
///
/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_HeartbeatRequest")]
unsafe extern "C" fn send_heartbeat(
    broker: *mut c_void,
    group: *const ProtocolString,
    generation: i32,
    member: *const ProtocolString,
    instance: *const ProtocolString,
    replies: ReplyQueue,
    handler: Handler,
    opaque: *mut c_void,
) {
    // SAFETY: the caller's promise; librdkafka ends its strings with NUL. `answered` gets the opaque that it expects.
    unsafe {
        let (handler, opaque) = if sent(CStr::from_ptr((*member).text)) && opaque.is_null() {
            (answered as Handler, handler as *mut c_void)
        } else {
            (handler, opaque)
        };
        __real_rd_kafka_HeartbeatRequest(broker, group, generation, member, instance, replies, handler, opaque);
    }
}

/// # Safety
/// librdkafka's own arguments; `own` is its handler, which expects no opaque.
unsafe extern "C" fn answered(
    client: *mut c_void,
    broker: *mut c_void,
    error: c_int,
    answer: *mut c_void,
    request: *mut c_void,
    own: *mut c_void,
) {
    if error == 0 {
        UNANSWERED.set(false);
    }
    // SAFETY: `send_heartbeat` made the pointer of a handler; the caller's promise.
    unsafe { transmute::<*mut c_void, Handler>(own)(client, broker, error, answer, request, null_mut()) };
}

/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_JoinGroupRequest")]
unsafe extern "C" fn join(
    broker: *mut c_void,
    group: *const ProtocolString,
    member: *const ProtocolString,
    instance: *const ProtocolString,
    kind: *const c_void,
    topics: *const c_void,
    replies: ReplyQueue,
    handler: Handler,
    opaque: *mut c_void,
) {
    // SAFETY: the caller's promise; librdkafka ends its strings with NUL, and copies what it sends.
    unsafe {
        // A static member's new id takes the old one's place at once.
        let is_static = (*instance).length >= 0;
        let (again, over) = if is_static { Default::default() } else { joins(CStr::from_ptr((*member).text)) };
        for former in over {
            let nowhere = ReplyQueue { queue: null_mut(), version: 0 };
            rd_kafka_LeaveGroupRequest(broker, (*group).text, former.as_ptr(), nowhere, None, null_mut());
        }
        let again = again.as_ref();
        let own = again.map(|id| ProtocolString { length: id.count_bytes() as c_int, text: id.as_ptr() });
        let member = own.as_ref().map_or(member, std::ptr::from_ref);
        __real_rd_kafka_JoinGroupRequest(broker, group, member, instance, kind, topics, replies, handler, opaque);
    }
}

/// A heartbeat with this id; false: with none.
fn sent(member: &CStr) -> bool {
    if member.is_empty() {
        return false;
    }
    UNANSWERED.set(true);
    MEMBERS.with_borrow_mut(|members| {
        if !matches!(&members[..], [only] if **only == *member) {
            *members = vec![member.to_owned()];
        }
    });
    true
}

/// A JoinGroup with this id: the one to send in its place, and the former members to end. They are ended again at each
/// JoinGroup before the next heartbeat, because a LeaveGroup may be lost.
fn joins(member: &CStr) -> (Option<CString>, Vec<CString>) {
    let unanswered = UNANSWERED.replace(false);
    MEMBERS.with_borrow_mut(|members| {
        if member.is_empty() {
            return (members.last().filter(|_| unanswered).cloned(), Vec::new());
        }
        members.retain(|id| **id != *member);
        let former = members.clone();
        if members.len() == MOST_MEMBERS {
            members.remove(0);
        }
        members.push(member.to_owned());
        (None, former)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(id: &CStr) -> CString {
        id.to_owned()
    }

    fn ended<const N: usize>(ids: [&CStr; N]) -> (Option<CString>, Vec<CString>) {
        (None, ids.map(owned).to_vec())
    }

    #[test]
    fn a_member_without_an_answer_joins_again_and_ends_if_it_gets_another_id() {
        assert_eq!([ended([]), ended([])], [c"", c"one"].map(joins), "at the first joining");
        assert!(sent(c"one"));
        assert_eq!(ended([]), joins(c"one"), "a rebalance");
        assert!(sent(c"one"));
        assert!(!sent(c""));
        assert_eq!((Some(owned(c"one")), Vec::new()), joins(c""));
        assert_eq!(ended([]), joins(c""), "refused");
        assert_eq!([ended([c"one"]), ended([c"one"])], [c"two", c"two"].map(joins));
        assert_eq!(ended([c"one", c"two"]), joins(c"three"), "before any heartbeat");
        assert!(sent(c"three"));
        assert_eq!(ended([]), joins(c"three"), "a rebalance");
        let other_client = std::thread::spawn(|| [c"", c"four"].map(joins)).join();
        assert_eq!([ended([]), ended([])], other_client.expect("ends"));
    }

    #[test]
    fn a_client_that_gets_one_id_after_the_other_keeps_a_few() {
        let ended: Vec<usize> =
            (0..20).map(|number| joins(&CString::new(number.to_string()).expect("no NUL")).1.len()).collect();
        assert_eq!([0, 1, 2], ended[..3]);
        assert_eq!(Some(&MOST_MEMBERS), ended.iter().max());
    }

    unsafe extern "C" fn own(
        _: *mut c_void,
        _: *mut c_void,
        _: c_int,
        _: *mut c_void,
        _: *mut c_void,
        opaque: *mut c_void,
    ) {
        assert!(opaque.is_null());
    }

    #[test]
    fn a_member_whose_heartbeats_are_answered_joins_as_a_new_one() {
        let answer = |error| {
            sent(c"one");
            // SAFETY: `own` only looks at the opaque.
            unsafe { answered(null_mut(), null_mut(), error, null_mut(), null_mut(), own as Handler as *mut c_void) };
            joins(c"")
        };
        assert_eq!(ended([]), answer(0));
        assert_eq!((Some(owned(c"one")), Vec::new()), answer(crate::rd::codes::TRANSPORT));
    }
}
