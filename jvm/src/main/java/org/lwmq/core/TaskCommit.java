package org.lwmq.core;

/** One task's part of a job's commit: the endpoint refuses the job if it lacks one of them. */
public record TaskCommit(int task, int partition, long attempt, long batches) {}
