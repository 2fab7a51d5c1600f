package dev.turnwire.conformance;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import dev.turnwire.CancelHandle;
import dev.turnwire.StreamLostException;
import dev.turnwire.TurnwireClient;
import dev.turnwire.TurnwireException;
import dev.turnwire.Updates;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.WatchRunRequest;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CancellationException;

/**
 * Runs the cases of the conformance set that all clients share: one JSON object per line in, one per line out. Everything
 * goes through what the package offers to everybody.
 */
public final class Main {
  private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private Main() {}

  /**
   * The program.
   *
   * @param arguments none
   * @throws IOException when a case cannot be read
   */
  public static void main(String[] arguments) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(answer(GSON.fromJson(line, Case.class)));
    }
  }

  private static String answer(Case played) throws InvalidProtocolBufferException {
    CancelHandle cancel = new CancelHandle();
    Seen seen = new Seen(played, cancel::cancel);
    RunTurnRequest.Builder run = RunTurnRequest.newBuilder();
    WatchRunRequest.Builder watch = WatchRunRequest.newBuilder();
    if ((played.run() == null) == (played.watch() == null)) {
      throw new IllegalArgumentException("exactly one of run and watch");
    }
    read(played.run(), run);
    read(played.watch(), watch);
    JsonElement error = Seen.none();
    try (TurnwireClient client = TurnwireClient.builder(played.target()).token(played.token()).build()) {
      if (played.run() != null) {
        client.run(run.build(), played.options(seen, cancel));
      } else {
        try (Updates updates = client.follow(watch.build(), played.follow(cancel))) {
          updates.forEachRemaining(seen::take);
        }
      }
    } catch (TurnwireException refused) {
      error = Seen.refusal(refused);
    } catch (StreamLostException lost) {
      error = Seen.named("StreamLost");
    } catch (CancellationException cancelled) {
      error = Seen.named("Cancelled");
    } catch (StatusRuntimeException status) {
      if (status.getStatus().getCode() != Status.Code.DEADLINE_EXCEEDED) {
        throw status;
      }
      error = Seen.named("DeadlineExceeded");
    }
    long after = (played.run() != null ? run.getAfter() : watch.getAfter()).getSequence();
    return GSON.toJson(seen.answer(after, error));
  }

  private static void read(JsonElement json, Message.Builder into) throws InvalidProtocolBufferException {
    if (json != null) {
      JsonFormat.parser().merge(GSON.toJson(json), into);
    }
  }
}
