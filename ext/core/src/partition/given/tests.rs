//! What becomes of the chunks of a batch, and of their tasks.

use super::*;
use crate::chunk::{CHUNK_MESSAGES, Chunk, MessagePart};
use crate::decode::avro::{Framing, Schema, SchemaId, TopicSchemas};
use crate::decode::{Kind, Node, Task};
use crate::filter::{Check, Literal, PathStep, Subject};
use crate::format::{Encoding, Shape};
use std::sync::atomic::Ordering;

fn messages<'a>(payloads: &[Option<&'a [u8]>]) -> Vec<GivenMessage<'a>> {
    let headers = || vec![(&b"h"[..], Some(&b"v"[..]))];
    let message =
        |(offset, payload)| GivenMessage { offset, timestamp: 7, payload, key: Some(b"k"), headers: headers() };
    (0..).zip(payloads.iter().copied()).map(message).collect()
}

fn batch(format: Format, filter: Option<Filter>, payloads: &[Option<&[u8]>]) -> Batch {
    GivenPartition::new("t", 0, format, filter).batch(&messages(payloads), 9)
}

/// Chunks whose tasks were not run.
fn packed(format: Format, filter: Option<Filter>, payloads: &[Option<&[u8]>]) -> (Vec<Arc<Chunk>>, Vec<Arc<dyn Task>>) {
    let mut packer = Packer::new("t".into(), 0, 0, format.into(), filter.map(Arc::new), usize::MAX);
    packer.add_given(&messages(payloads), 9);
    packer.finish()
}

fn only(batch: &Batch) -> Arc<Chunk> {
    let chunks = batch.chunks();
    assert_eq!(1, chunks.len());
    Arc::clone(&chunks[0])
}

/// `{"a":0}`, `{"a":1}`, …
fn documents(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!(r#"{{"a":{number}}}"#).into_bytes()).collect()
}

fn some(documents: &[Vec<u8>]) -> Vec<Option<&[u8]>> {
    documents.iter().map(|document| Some(&**document)).collect()
}

fn number(node: Node<'_>) -> i64 {
    match node.get(b"a").map(Node::kind) {
        Some(Kind::Int(number)) => number,
        _ => panic!("no number"),
    }
}

fn a_is(number: i64) -> Filter {
    let path = vec![PathStep::Name(b"a".to_vec())];
    Filter::Test(Subject::Field(path), Check::OneOf([Literal::Int(number)].into_iter().collect()))
}

fn unparsed(chunk: &Chunk) -> Vec<Option<usize>> {
    (0..chunk.records().len()).map(|index| chunk.unparsed(index)).collect()
}

/// What the object of a message shows: payload, key, headers.
fn shown(chunk: &Chunk, index: usize) -> Option<(Vec<u8>, Vec<u8>, usize)> {
    chunk.view(index, |view| {
        let own = |part: Option<&[u8]>| part.map(<[u8]>::to_vec).unwrap_or_default();
        (own(view.payload), own(view.key), view.headers().count())
    })
}

#[test]
fn documents_are_decoded_when_their_batch_is_made_unless_their_format_is_lazy() {
    let payloads: [Option<&[u8]>; 4] = [Some(br#"{"a":1}"#), None, Some(b"[]"), Some(b"no JSON")];
    assert_eq!(vec![None, None, None, Some(7)], unparsed(&only(&batch(Format::JSON, None, &payloads))));
    assert_eq!(vec![Some(7), None, Some(2), Some(7)], unparsed(&only(&batch(Format::LAZY, None, &payloads))));
}

#[test]
fn chunk_waits_until_its_task_or_its_first_reader_decodes_all_of_it() {
    let payloads: [Option<&[u8]>; 2] = [Some(br#"{"a":1}"#), Some(br#"{"a":2}"#)];
    for reads in [false, true] {
        let (chunks, tasks) = packed(Format::JSON, None, &payloads);
        assert_eq!((1, 1), (chunks.len(), tasks.len()));
        assert!(chunks[0].waiting().is_some_and(|bytes| bytes >= chunks[0].bytes()));
        if reads {
            assert_eq!(Ok(2), chunks[0].decoded(1, number));
        } else {
            tasks[0].run();
        }
        assert_eq!((None, vec![None, None]), (chunks[0].waiting(), unparsed(&chunks[0])));
        assert_eq!(Ok(1), chunks[0].decoded(0, number));
    }
}

#[test]
fn chunk_without_documents_to_decode_and_without_a_filter_has_no_task() {
    let document = [Some(&br#"{"a":1}"#[..])];
    for (format, filter, payloads, tasks) in [
        (Format::JSON, None, &document, 1),
        (Format::JSON, None, &[None], 0),
        (Format::LAZY, None, &document, 0),
        (Format::LAZY, Some(a_is(1)), &document, 1),
        (Format::JSON, Some(a_is(1)), &[None], 1),
    ] {
        let found = packed(format, filter, payloads);
        assert_eq!(tasks, found.1.len());
        assert_eq!(tasks > 0, found.0[0].waiting().is_some());
    }
}

#[test]
fn messages_that_a_filter_refuses_are_left_out_and_those_it_cannot_read_are_rubys() {
    let payloads: [Option<&[u8]>; 5] =
        [Some(br#"{"a":1}"#), Some(br#"{"a":2}"#), None, Some(b"no JSON"), Some(br#"{"a":1}"#)];
    for (format, admitted, undecided) in
        [(Format::JSON, vec![0, 3, 4], vec![3]), (Format::LAZY, vec![0, 1, 3, 4], vec![0, 1, 3, 4])]
    {
        let batch = batch(format, Some(a_is(1)), &payloads);
        let chunk = only(&batch);
        assert_eq!(admitted, chunk.admitted().collect::<Vec<_>>());
        assert_eq!((admitted.len(), payloads.len() - admitted.len()), (batch.len(), batch.dropped()));
        assert_eq!(undecided, (0..5).filter(|index| chunk.is_undecided(*index)).collect::<Vec<_>>());
        assert_eq!([Ok(1), Ok(1)], [0, 4].map(|index| chunk.decoded(index, number)));
    }
    let all = batch(Format::JSON, None, &payloads);
    assert_eq!((5, false), (only(&all).admitted().count(), only(&all).is_undecided(3)));
}

#[test]
fn chunk_of_refused_messages_is_freed_at_once() {
    let documents = documents(3);
    let batch = batch(Format::JSON, Some(a_is(7)), &some(&documents));
    assert_eq!((0, 3, true), (batch.len(), batch.dropped(), batch.is_empty()));
    assert!((0..3).all(|index| shown(&only(&batch), index).is_none()));
}

#[test]
fn schemas_that_a_topic_has_not_learnt_are_named_once_each() {
    let topic = Arc::new(TopicSchemas::new(Framing::Registry, None));
    let format = || Format::ahead(Encoding::Avro(Arc::clone(&topic)), Shape::default());
    let payloads: Vec<_> = [7, 7, 9, 8].map(|schema| vec![0, 0, 0, 0, schema, 2]).into();
    let payloads = [some(&payloads), vec![None, Some(&b"\x01"[..])]].concat();
    let ids = |ids: &[u32]| ids.iter().map(|id| SchemaId::Number(*id)).collect::<Vec<_>>();
    let all = batch(format(), None, &payloads);
    let chunk = only(&all);
    assert_eq!(ids(&[7, 9, 8]), chunk.unknown_schemas(3));
    assert_eq!(ids(&[7, 9]), chunk.unknown_schemas(2));
    topic.learn(SchemaId::Number(7), &Schema::parse(r#""int""#, &[] as &[&str]).expect("a schema"));
    assert_eq!(ids(&[9, 8]), chunk.unknown_schemas(3));
    let of_nine = Filter::Test(Subject::Payload, Check::StartsWith(vec![0, 0, 0, 0, 9]));
    assert_eq!(ids(&[9]), only(&batch(format(), Some(of_nine), &payloads)).unknown_schemas(3));
    assert_eq!(ids(&[]), only(&batch(Format::JSON, None, &payloads)).unknown_schemas(3));
}

#[test]
fn released_chunk_keeps_an_eighth_of_its_messages_by_themselves() {
    let documents = documents(CHUNK_MESSAGES);
    let batch = batch(Format::JSON, None, &some(&documents));
    let chunk = only(&batch);
    let objects = || [0, 1, 62, 63, 64, 65, 100, 101, 102, 103, 104, 105, 106, 107, 126, 127, 31];
    objects().iter().for_each(|index| assert!(chunk.add_object(*index)));
    assert!(!chunk.thin(), "it is not released");
    assert_eq!(0, batch.release(), "17 of 128 are more than an eighth");
    assert!(!chunk.thin() && shown(&chunk, 2).is_some());
    chunk.remove_object(31);
    assert!(chunk.thin());
    for (index, document) in documents.iter().enumerate() {
        let kept = objects()[..16].contains(&index);
        let expected = kept.then(|| (document.clone(), b"k".to_vec(), 1));
        assert_eq!(expected, shown(&chunk, index), "{index}");
        assert_eq!(kept, chunk.decoded(index, number) == Ok(index as i64), "{index}");
        assert_eq!(kept, chunk.decode_alone(index).read(number) == Ok(index as i64), "{index}");
    }
}

/// Objects without a reader kept the trees of all their chunks until a garbage collection.
#[test]
fn released_chunk_keeps_no_document_and_decodes_each_again_that_is_read() {
    let documents = documents(16);
    let batch = batch(Format::JSON, None, &some(&documents));
    let chunk = only(&batch);
    assert!((0..16).all(|index| chunk.add_object(index)));
    assert_eq!(None, chunk.unparsed(3), "it was decoded ahead");
    assert_eq!(0, batch.release(), "all messages are held");
    assert_eq!(Some(documents[3].len()), chunk.unparsed(3));
    assert!((0..16).all(|index| chunk.decoded(index, number) == Ok(index as i64)));
    assert_eq!(Some(documents[3].len()), chunk.unparsed(3), "nor does it keep what was read");
}

#[test]
fn chunk_of_one_message_keeps_it_by_itself() {
    let documents = documents(1);
    let batch = batch(Format::LAZY, None, &some(&documents));
    let chunk = only(&batch);
    assert!(chunk.add_object(0));
    assert_eq!(chunk.bytes(), batch.release());
    assert_eq!(Some((documents[0].clone(), b"k".to_vec(), 1)), shown(&chunk, 0));
}

#[test]
fn what_the_owner_of_an_object_notes_is_gone_with_the_object() {
    let documents = documents(2);
    for (keeps_parts, words) in [(false, 1), (true, 3)] {
        let format = Format { keeps_parts, ..Format::LAZY };
        let batch = batch(format, None, &some(&documents));
        let chunk = only(&batch);
        let noted = || chunk.words(1).map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert!(chunk.add_object(1));
        assert_eq!(vec![0; words], noted());
        chunk.words(1).for_each(|word| word.store(5, Ordering::Relaxed));
        assert_eq!(Some(5), chunk.word(1, MessagePart::Payload).map(|word| word.load(Ordering::Relaxed)));
        assert_eq!(
            [keeps_parts; 2],
            [MessagePart::Key, MessagePart::Headers].map(|part| chunk.word(1, part).is_some())
        );
        assert!(!chunk.add_object(1), "there is one");
        assert_eq!(vec![5; words], noted());
        chunk.remove_object(1);
        assert!(chunk.add_object(1));
        assert_eq!(vec![0; words], noted());
    }
}

/// Otherwise the memory of one would go while Ruby still has its object.
#[test]
fn each_message_of_a_chunk_has_an_object_of_its_own() {
    let batch = batch(Format::LAZY, None, &[Some(&b"x"[..]); CHUNK_MESSAGES]);
    let chunk = only(&batch);
    let added = || (0..CHUNK_MESSAGES).filter(|index| chunk.add_object(*index)).collect::<Vec<_>>();
    assert_eq!((0..CHUNK_MESSAGES).collect::<Vec<_>>(), added());
    for index in 0..CHUNK_MESSAGES {
        chunk.remove_object(index);
        assert_eq!(vec![index], added());
    }
}
