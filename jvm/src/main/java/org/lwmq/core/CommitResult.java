package org.lwmq.core;

/**
 * What the endpoint answered to a task's commit. Either way the task succeeds and reports the winner's numbers.
 *
 * @param won whether these batches count; if not, another attempt had committed, and ours were dropped
 * @param partition of the stream; the first one, if the task has written to several
 * @param attempt of the winner
 * @param startSeq of the winner; equal to endSeq with delivery JOB until the job commits
 */
public record CommitResult(
    boolean won, int partition, long attempt, long startSeq, long endSeq, long batches, long rows, long bytes) {}
