"""Behaviours of runs that wait for their caller, outside of the turn machine, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "APPROVE-1": "What a run waits for, its questions and its session's standing answers are stored with the row that "
    "makes them so, all or nothing, and are found again after a restart.",
    "APPROVE-2": "A standing answer is kept once per session, belongs to it alone and goes with it.",
    "APPROVE-3": "Questions are listed oldest first, by run, session, agent and state, in pages that miss and repeat "
    "nothing, to their own tenant only.",
    "APPROVE-10": "A call that is asked about waits, and runs after a yes: the answer, the execution and the result "
    "are told in this order to every reader.",
    "APPROVE-11": "A question holds call, digest, patterns and times, the same in event, run and list; "
    "runs are listed by being waiting, without what the calls are to do.",
    "APPROVE-12": "A rejection and the person's words reach the model, and the run goes on.",
    "APPROVE-13": "A question is claimed once: the same answer again changes nothing, another one learns the first.",
    "APPROVE-14": "An answer is bound to the call that was shown; what names no question or breaks a rule is refused.",
    "APPROVE-15": "ALWAYS adds to the session exactly the rules that were shown; policy, tools and later runs of the "
    "session show them, and the run's own rules come after them.",
    "APPROVE-16": "Calls that nobody has to be asked about run while others wait; an answer settles others like it.",
    "APPROVE-17": "A question that nobody answers in time is rejected and says so.",
    "APPROVE-18": "The end of a run withdraws its questions.",
    "APPROVE-19": "A stream may end where the run waits, and a reader may come back at any place.",
    "APPROVE-20": "The time of a run stands still while it waits for its caller.",
    "APPROVE-21": "Destructive tools are asked about by default; auto_approve and allow_destructive decide otherwise.",
    "APPROVE-22": "The command line lists and answers questions, and says how to where it cannot ask.",
    "APPROVE-23": "At a terminal the person is asked while the run waits.",
    "APPROVE-25": "The client shows what a run waits for, and takes the end of a stream there for its proper end.",
    "APPROVE-26": "Telemetry shows that and how long a run waited, and for what by name, without any content.",
    "APPROVE-30": "A call of the caller's own tool is handed out, and its result goes to the model like any other.",
    "APPROVE-31": "Results come in any order and number, each counts once, and the caller learns what is missing.",
    "APPROVE-32": "A result is checked, capped and cleaned; what breaks a rule is refused by its path.",
    "APPROVE-33": "A result that never comes is an error that the model reads, or the end of the run.",
    "APPROVE-34": "In the mode RETURN every call is handed out, after permission.",
    "APPROVE-35": "Tools of the caller are checked as others are: names, schemas, arguments, collisions.",
    "APPROVE-36": "Functions of a program are tools of one of its turns: called in its process, once per call, given "
    "up with the turn.",
    "APPROVE-24": "A program answers the questions of its turns and adds input to them in process.",
    "APPROVE-40": "Words added to a run come after the results of the calls that are open, in the next iteration.",
    "APPROVE-41": "Words added while the model answers make it answer again in the same turn.",
    "APPROVE-42": "The same addition again adds nothing, also after the run; another under its id is refused.",
    "APPROVE-43": "Nothing is taken that no iteration would read.",
    "APPROVE-44": "An addition that breaks a rule is refused by its path.",
    "APPROVE-60": "A run that waits goes on waiting after a restart, however its process ended, with its questions, "
    "handed-out calls, rules and added input; nothing is done twice.",
    "APPROVE-51": "What expired while there was no process is expired at the start.",
    "APPROVE-52": "A waiting run that cannot go on is closed, its questions withdrawn.",
    "APPROVE-53": "A stop leaves the runs that wait, or begin to, and ends the others.",
    "APPROVE-54": "A child run may do nothing that its parent may not; its questions are its own.",
    "APPROVE-55": "A result that was taken before a restart is a duplicate after it, as it was before.",
    "APPROVE-56": "What ended runs below a waiting run spent counts against its budgets after a restart too.",
    "APPROVE-57": "A waiting child has the permissions and budgets of its parent after a restart too.",
    "APPROVE-58": "A page of questions or of runs fits what clients take; a token that none gave is refused.",
    "APPROVE-59": "A person's comment reaches the model without what no tool result may hold.",
    "APPROVE-61": "A rule for a permission that nothing asks for is refused, in every layer, and not taken for a lock.",
    "APPROVE-63": "A tool may ask for something finer than its name, by a permission that rules can be about.",
    "APPROVE-64": "A command line asks for each of its simple commands; what is unclear is asked as a whole.",
    "APPROVE-65": "No command of a line runs that its simple commands do not name.",
    "APPROVE-66": "A tool asks a person while it runs, and gets what the person filled in, a refusal, or silence.",
    "APPROVE-67": "What a person fills in matches what was asked for, reaches the tool, and is kept nowhere.",
    "APPROVE-68": "While a tool waits for a person its time does not pass, and the run waits if nothing else goes on.",
    "APPROVE-69": "A question of a tool ends with its call: at its end, a cancel, a stop, or the end of the process.",
    "APPROVE-62": "A call that goes round in circles asks a person, whatever the rules say, and the answer decides.",
    "APPROVE-50": "Of answers, cancellations and expiries at once exactly one counts, and all agree which.",
}
