/**
 * Client of Turnwire: runs agent turns, follows them across cut connections, and answers what they wait for.
 *
 * <p>{@link dev.turnwire.TurnwireClient#follow} gives updates as they come, {@link dev.turnwire.RunView} folds them, and
 * {@link dev.turnwire.TurnwireClient#run} also calls tools and asks for approvals. Messages and stubs of the contract
 * are in {@code dev.turnwire.v1}.
 *
 * <p>Calls block. They end with {@link java.util.concurrent.CancellationException} when the calling thread is
 * interrupted (its interrupt status stays set), when a {@link dev.turnwire.CancelHandle} says so, or with the gRPC
 * context that they are made in; with {@link dev.turnwire.TurnwireException} when the server refuses; and with gRPC's
 * {@code StatusRuntimeException} otherwise, as when a deadline has passed.
 */
package dev.turnwire;
