package dev.turnwire;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.Strictness;

/** JSON as the contract has it: strict, with nulls, and nothing escaped that need not be. */
final class Json {
  private static final Gson GSON =
      new GsonBuilder().setStrictness(Strictness.STRICT).serializeNulls().disableHtmlEscaping().create();

  private Json() {}

  static <T> T read(String json, Class<T> type) {
    return GSON.fromJson(json, type);
  }

  static String write(Object value) {
    return GSON.toJson(value);
  }
}
