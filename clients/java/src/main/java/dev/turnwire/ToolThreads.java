package dev.turnwire;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** The threads that functions run on. They do not keep a program alive. */
final class ToolThreads implements ThreadFactory {
  private static final long IDLE_SECONDS = 30;

  private final AtomicInteger made = new AtomicInteger();

  private ToolThreads() {}

  static ExecutorService pool(int most) {
    ThreadPoolExecutor pool =
        new ThreadPoolExecutor(
            most, most, IDLE_SECONDS, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), new ToolThreads());
    pool.allowCoreThreadTimeOut(true);
    return pool;
  }

  @Override
  public Thread newThread(Runnable work) {
    Thread thread = new Thread(work, "turnwire-tool-" + made.incrementAndGet());
    thread.setDaemon(true);
    return thread;
  }
}
