package dev.turnwire;

import dev.turnwire.v1.Cursor;
import dev.turnwire.v1.RunEvent;
import java.util.List;
import java.util.OptionalLong;

/**
 * What one frame of a stream brought.
 *
 * @param events what happened, in order; may be empty. An event of a kind that this client does not know has the case
 *     {@code EVENT_NOT_SET}
 * @param rewindTo when present, discard every event after this sequence number first: another server took the run over,
 *     and those events never became part of it
 * @param cursor the place after the events, to go on from later
 */
public record Update(List<RunEvent> events, OptionalLong rewindTo, Cursor cursor) {
  /**
   * Keeps a copy of the list.
   *
   * @param events what happened, in order
   * @param rewindTo the last event to keep, when present
   * @param cursor the place after the events
   */
  public Update {
    events = List.copyOf(events);
  }
}
