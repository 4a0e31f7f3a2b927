package org.lwmq.core;

import java.util.List;

/**
 * Options of a reader; zero and null mean the default of {@code lwmq_reader_options}.
 *
 * @param settled batches are acknowledged by {@link StreamState#settle} instead of by being consumed
 * @param follow go on after the end of the stream, with its next producer
 * @param writers the stream has not ended before that many producers have come
 * @param credit batches handed over ahead of their use
 * @param name counts once per batch; null: a name of its own
 * @param generation 32 hex digits; DATA_LOSS if the endpoint's is another. Null: any
 * @param keepMapped the writers' windows stay mapped 10 s longer, for the next reader of this process
 * @param ranges null: every partition, from the earliest to the end
 * @param stallMs as in {@link WriterOptions}
 * @param task what the reader is an attempt at; null: nothing. An attempt that needs a batch which was released gets
 *     SUPERSEDED while another attempt at the task reads, else DATA_LOSS
 * @param attempt which one
 * @param columns the top-level fields that are looked at; null: all. Over a network the bytes of others do not travel,
 *     and what lies in their place in a batch means nothing
 * @param filters batches whose bounds show that no row matches all of them are passed over
 */
public record ReaderOptions(
    Role role, boolean settled, boolean follow, int writers, int credit, String name, String generation,
    boolean keepMapped, List<Range> ranges, int stallMs, String task, long attempt,
    List<String> columns, List<Filter> filters) {}
