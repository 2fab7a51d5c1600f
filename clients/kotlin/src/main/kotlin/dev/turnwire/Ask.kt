/*
 * Asks an agent: Ask ADDRESS QUESTION. Prints the answer as it comes and how the run ended.
 *
 * It shows the generated stubs. A stream that is cut ends it; what a client does then is in docs/clients.md.
 */
package dev.turnwire

import dev.turnwire.v1.Role
import dev.turnwire.v1.RunEvent.EventCase
import dev.turnwire.v1.TurnServiceGrpcKt.TurnServiceCoroutineStub
import dev.turnwire.v1.message
import dev.turnwire.v1.part
import dev.turnwire.v1.runTurnRequest
import dev.turnwire.v1.turnSpec
import io.grpc.ManagedChannelBuilder
import java.util.UUID
import kotlin.system.exitProcess
import kotlinx.coroutines.runBlocking

fun main(arguments: Array<String>) {
    if (arguments.size != 2) {
        System.err.println("usage: Ask ADDRESS QUESTION")
        exitProcess(2)
    }
    val (address, question) = arguments
    val request = runTurnRequest {
        turn = turnSpec {
            requestId = UUID.randomUUID().toString()
            input += message {
                role = Role.ROLE_USER
                parts += part { text = question }
            }
        }
    }
    val channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build()
    try {
        runBlocking {
            TurnServiceCoroutineStub(channel).runTurn(request).collect { frame ->
                for (event in frame.eventsList) {
                    when (event.eventCase) {
                        EventCase.TEXT_DELTA -> print(event.textDelta.text)
                        EventCase.RUN_FINISHED -> println("\n${event.runFinished.outcome.kind}")
                        else -> {}
                    }
                }
                System.out.flush()
            }
        }
    } finally {
        channel.shutdownNow()
    }
}
