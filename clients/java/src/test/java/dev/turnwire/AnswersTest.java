package dev.turnwire;

import static dev.turnwire.Events.forApproval;
import static dev.turnwire.Events.forCalls;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonPrimitive;
import dev.turnwire.v1.ApprovalDecision;
import dev.turnwire.v1.Part;
import dev.turnwire.v1.ResolveApprovalRequest;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.ToolResult;
import dev.turnwire.v1.ToolResultStatus;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class AnswersTest {
  record Place(String city) {}

  private static ToolResult result(String argumentsJson, ToolFunction function) {
    Answers answers = new Answers(Map.of("tool", function), Optional.empty());
    RunWaiting waiting = RunWaiting.newBuilder().addClientToolCalls(Events.call("tool", argumentsJson)).build();
    Answers.Answer answer = answers.begin(Events.RUN, waiting).get(0).get();
    return assertInstanceOf(Answers.Result.class, answer).request().getResults(0);
  }

  private static ResolveApprovalRequest resolution(Decision decision) {
    Answers answers = new Answers(Map.of(), Optional.of(approval -> decision));
    Answers.Answer answer = answers.begin(Events.RUN, forApproval("x").build()).get(0).get();
    return assertInstanceOf(Answers.Resolution.class, answer).request();
  }

  private static Part ok(ToolResult result) {
    assertEquals(ToolResultStatus.TOOL_RESULT_STATUS_OK, result.getStatus());
    assertEquals("call-tool", result.getCallId());
    return result.getContent(0);
  }

  private static String error(ToolResult result) {
    assertEquals(ToolResultStatus.TOOL_RESULT_STATUS_ERROR, result.getStatus());
    return result.getContent(0).getText();
  }

  @Test
  void aStringIsTextAndAnyOtherValueIsJson() {
    assertEquals("café", ok(result("\"caf\\u00e9\"", Arguments::tree)).getText());
    assertEquals("<plain>", ok(result("{}", arguments -> "<plain>")).getText());
    String whole = "{\"n\":9007199254740993,\"z\":1.10,\"none\":null}";
    assertEquals(whole, ok(result(whole, Arguments::tree)).getDataJson());
    assertEquals("{\"city\":\"<Oslo>\"}", ok(result("{}", arguments -> new Place("<Oslo>"))).getDataJson());
    assertEquals("[1,null]", ok(result("{}", arguments -> Arrays.asList(1, null))).getDataJson());
    assertEquals("null", ok(result("{}", arguments -> null)).getDataJson());
    assertEquals("text", ok(result("{}", arguments -> new JsonPrimitive("text"))).getText());
  }

  @Test
  void argumentsAreReadIntoWhatTheFunctionTakes() {
    assertEquals("Oslo", ok(result("{\"city\":\"Oslo\"}", given -> given.as(Place.class).city())).getText());
    assertEquals("{}", ok(result("", Arguments::tree)).getDataJson());
    assertEquals("{\"a\" ", ok(result("{\"a\" ", Arguments::json)).getText());
  }

  @Test
  void whatAFunctionFailsWithAndWhatItCannotReadIsToldToTheModel() {
    assertEquals("no such city", error(result("{}", arguments -> {
      throw new java.io.IOException("no such city");
    })));
    assertEquals("IllegalStateException", error(result("{}", arguments -> {
      throw new IllegalStateException();
    })));
    for (String arguments : List.of("{\"city\":", "{city:1}", "null", "[]")) {
      assertFalse(error(result(arguments, given -> given.as(Place.class))).isEmpty(), arguments);
    }
    assertFalse(error(result("{}", arguments -> Double.NaN)).isEmpty());
  }

  @Test
  void eachCallAndEachApprovalIsBegunOnce() {
    Answers answers = new Answers(Map.of("known", arguments -> 1), Optional.of(approval -> Decision.once()));
    RunWaiting told = forCalls("known", "other").mergeFrom(forApproval("x").build()).build();
    assertEquals(2, answers.begin(Events.RUN, told).size());
    assertEquals(0, answers.begin(Events.RUN, told).size());
    assertEquals(1, answers.begin(Events.RUN, forApproval("y").mergeFrom(told).build()).size());
  }

  @Test
  void whatCannotBeAnsweredIsKnown() {
    Answers tools = new Answers(Map.of("known", arguments -> 1), Optional.empty());
    assertTrue(tools.cover(forCalls("known", "other").build()));
    assertFalse(tools.cover(forCalls("other").mergeFrom(forApproval("x").build()).build()));
    assertTrue(tools.cover(RunWaiting.getDefaultInstance()), "all is settled: the run is about to go on");
    assertTrue(new Answers(Map.of(), Optional.of(approval -> null)).cover(forApproval("x").build()));
  }

  @Test
  void aDecisionAnswersForExactlyTheCallThatWasShown() {
    ResolveApprovalRequest rejected = resolution(Decision.reject("not today"));
    assertEquals(ApprovalDecision.APPROVAL_DECISION_REJECT, rejected.getDecision());
    assertEquals("not today", rejected.getComment());
    assertEquals("digest of x", rejected.getCallDigest());
    assertEquals("x", rejected.getApprovalId());
    assertEquals(Events.RUN, rejected.getRunId());
    assertFalse(rejected.hasInputJson());
    ResolveApprovalRequest always = resolution(Decision.always("a*"));
    assertEquals(ApprovalDecision.APPROVAL_DECISION_ALWAYS, always.getDecision());
    assertEquals(List.of("a*"), always.getAlwaysPatternsList());
    ResolveApprovalRequest once = resolution(Decision.onceWithInput("{\"a\":1}"));
    assertEquals(ApprovalDecision.APPROVAL_DECISION_ONCE, once.getDecision());
    assertEquals("{\"a\":1}", once.getInputJson());
    assertThrows(NullPointerException.class, () -> resolution(null));
  }
}
