// The functions of librdkafka that the core puts its own in front of, for the build scripts that tell the linker. In
// src/rd: broker_wakeup, decompression, fetching, rebalance_pause, unanswered_heartbeat, unanswered_request,
// without_group.
const WRAPPED_OF_LIBRDKAFKA: [&str; 13] = [
    "rd_kafka_ConsumerGroupHeartbeatRequest",
    "rd_kafka_assignment_pause",
    "rd_kafka_assignment_resume",
    "rd_kafka_broker_any_usable",
    "rd_kafka_msgq_allow_wakeup_at",
    "rd_kafka_op_handle",
    "rd_kafka_op_req",
    "rd_kafka_op_req2",
    "rd_kafka_toppar_fetch_decide",
    "rd_kafka_toppar_get2",
    "rd_kafka_lz4_decompress",
    "rd_kafka_snappy_uncompressed_length",
    "rd_kafka_snappy_java_uncompress",
];
