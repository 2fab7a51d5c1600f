package dev.turnwire;

import com.google.gson.JsonElement;

/**
 * What the model calls a tool with.
 *
 * @param json the model's very words, which may be no JSON at all
 */
public record Arguments(String json) {
  /**
   * The arguments as a record or another class that Gson can make.
   *
   * @param type of the result
   * @param <T> of the result
   * @return never null
   * @throws com.google.gson.JsonParseException when they are no JSON or do not fit; left uncaught, the model is told
   */
  public <T> T as(Class<T> type) {
    T value = Json.read(json.isEmpty() ? "{}" : json, type);
    if (value == null) {
      throw new com.google.gson.JsonParseException("there are no arguments");
    }
    return value;
  }

  /**
   * The arguments as a tree, with numbers as they were written.
   *
   * @return an object, most often
   * @throws com.google.gson.JsonParseException when they are no JSON; left uncaught, the model is told
   */
  public JsonElement tree() {
    return as(JsonElement.class);
  }
}
