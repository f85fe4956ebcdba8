// The guard: before a tool writes, the daemon is asked, and obeyed. Where no daemon answers, hook.py takes the last look.

import { ask, askThere, find, forget, isHung, lastLook, speaker } from './daemon.js'
import { note } from './screen.js'

const WRITES =
  /^(Write|Edit|MultiEdit|NotebookEdit|Bash|Monitor|SendMessage|mcp__(?!plugin_corral_corral__).*(write|edit|create|replace|insert|delete|remove|move|rename|patch|update|append|save|copy|modify|apply|refactor|format).*)$/i
const OF_SKILL = ':preamble-' // in the ids of the commands in a skill's text
const SHELLS = { Monitor: 'Bash' } // what runs a command as Bash does, under another name
const LONGEST = 131072
const EDITS = /^(Write|Edit|MultiEdit|NotebookEdit)$/
const RECENT_MS = 3000
const passed = new Map() // what was let pass, and when, by the ids of the calls
let telling = Promise.resolve() // the last end of an edit that the daemon is being told

// The daemon needs the names of files and the text of commands, never what is written.
const brief = ({ content, new_source, new_string, old_string, ...input }) =>
  Object.fromEntries(Object.entries(input).filter(([, value]) => typeof value === 'string' && value.length <= LONGEST))

const ofCall = ({ tool, tool_use_id, agentId, ...input }) =>
  ({ tool_name: SHELLS[tool] ?? tool, tool_use_id, agent_id: agentId ?? '', tool_input: brief(input) })

const ofSkill = ({ tool, tool_use_id, agentId, input }) =>
  ({ tool_name: tool, tool_use_id, agent_id: agentId ?? '', tool_input: brief(input ?? {}) })

// A call of another mod; no model reads what is answered to it.
const ofMod = (tool_name, tool_input) => ({ tool_name, tool_use_id: `mod_${crypto.randomUUID()}`, agent_id: '', tool_input })

const ofProgram = (argv, { cwd, stdin = '' }) =>
  ({ ...ofMod('Bash', { command: [...argv, stdin].join(' ').trim().slice(0, LONGEST) }), ...(cwd && { cwd }) })

const isOther = origin => origin.plugin !== 'corral' && (origin.tier === 'user' || origin.tier === 'prepend' || origin.tier === 'append')

const refusal = answer => {
  const said = answer.hookSpecificOutput ?? {}
  return said.permissionDecision === 'deny' ? said.permissionDecisionReason || 'Corral refuses it.' : undefined
}

const notes = answer => [answer.hookSpecificOutput?.additionalContext].filter(Boolean)

const withNotes = (ran, texts) =>
  texts.length && ran.deny === undefined ? { ...ran, context: [...(ran.context ?? []), ...texts] } : ran

const denied = (e, reason) => {
  note(e.tool_use_id, reason)
  return { deny: reason }
}

function tell($, answer) {
  if (answer.systemMessage) $.ui.log(answer.systemMessage)
  return answer
}

/** Ask about a call; of an edit outside of this session's project, the project that its file is in: its answer says so. */
async function before($, event, fields) {
  const answer = await ask($, event, fields)
  const path = writtenBy(fields)
  if (!path || !(answer.is_elsewhere || !(await find($)))) return tell($, answer)
  return tell($, { ...await askThere($, event, path, fields), is_elsewhere: true, is_quiet: false })
}

async function look($, fields) {
  forget()
  try {
    return tell($, await lastLook($, 'PreToolUse', fields))
  } catch (fault) {
    const why = `Corral cannot look whether somebody holds what this call writes, so it passes: ${fault.message}`
    return tell($, { systemMessage: why })
  }
}

const PATHS = [
  'file_path', 'notebook_path', 'path', 'filepath', 'filename', 'relative_path', 'target_file', 'destination',
  'filePath', 'absolute_path', 'pathInProject', 'target_filepath', 'target_path', 'new_path',
]

const writtenBy = ({ tool_name, tool_input }) => tool_name !== 'Bash' && PATHS.map(name => tool_input?.[name]).find(Boolean)

const target = e => e.file_path ?? e.notebook_path

const letPass = e => passed.set(e.tool_use_id, { target: target(e), at: Date.now() })

/** Whether this very call was let pass just now. */
function isSettled(e) {
  const before = passed.get(e.tool_use_id)
  return before !== undefined && before.target === target(e) && Date.now() - before.at < RECENT_MS
}

/** Without a daemon: what the last look says. */
async function without($, e, next) {
  if (next.called) return next(e)
  const reason = refusal(await look($, ofCall(e)))
  if (reason !== undefined) return denied(e, reason)
  letPass(e)
  return next(e)
}

/** Tell the daemon of an end; resolves what the model is to read. */
async function after($, event, fields) {
  if (isHung()) return []
  return notes(tell($, await ask($, event, fields).catch(() => ({}))))
}

/** Until the daemon knows of the ends of all edits. */
export function toldAll() {
  return telling
}

/** Ask about what another mod does, and tell its end. */
async function watched($, fields, run) {
  const reason = refusal(await before($, 'PreToolUse', fields))
  if (reason !== undefined) return { deny: reason }
  const done = await run()
  await after($, 'PostToolUse', fields)
  return done
}

export function guard(on) {
  on('tool.call', { tool: WRITES }, async ($, e, next) => {
    await telling
    const fields = { ...await speaker($), ...ofCall(e) }
    const answer = await before($, 'PreToolUse', fields)
    const reason = refusal(answer)
    if (reason !== undefined) return denied(e, reason)
    letPass(e)
    const ran = await next(e)
    passed.delete(e.tool_use_id)
    if (ran.deny !== undefined) return ran
    const event = ran.isError ? 'PostToolUseFailure' : 'PostToolUse'
    // The answer to an edit's end says what waits for the session. Where nothing does, nobody waits for it.
    if (answer.is_quiet && EDITS.test(e.tool)) {
      telling = after($, event, { ...fields, is_unread: true })
      return withNotes(ran, notes(answer))
    }
    const there = answer.is_elsewhere ? notes(await askThere($, event, writtenBy(fields), fields).catch(() => ({}))) : []
    return withNotes(ran, [...notes(answer), ...there, ...await after($, event, ofCall(e))])
  }).catch(without)

  // Since it was let pass, a person may have been asked for longer than a lock lasts, and another mod may have changed its path.
  on('tool.run', { tool: EDITS }, async ($, e, next) => {
    const reason = isSettled(e) ? undefined : refusal(await before($, 'PreToolUse', ofCall(e)))
    return reason === undefined ? next(e) : denied(e, reason)
  }).catch(without)

  // A skill's shell is no tool call, but its permission is decided as one's is.
  on('tool.check', { tool: 'Bash' }, async ($, e, next) => {
    if (!e.tool_use_id?.includes(OF_SKILL)) return next(e)
    const reason = refusal(await before($, 'PreSkillShellCommand', ofSkill(e)))
    return reason === undefined ? next(e) : { decision: 'deny', reason }
  }).catch(async ($, e, next) => {
    const reason = refusal(await look($, ofSkill(e)))
    return reason === undefined ? next(e) : { decision: 'deny', reason }
  })

  // Another mod may write by itself.
  on('fs.write', ($, e, next) =>
    isOther(next.origin) ? watched($, ofMod('Write', { file_path: e.path }), () => next(e)) : next(e),
  ).catch(async ($, e, next) => {
    if (next.called || !isOther(next.origin)) return next(e)
    const reason = refusal(await look($, ofMod('Write', { file_path: e.path })))
    return reason === undefined ? next(e) : { deny: reason }
  })

  // A program of another mod is asked about, and runs wherever nobody answers: much in the client runs programs.
  on('process.run', ($, e, next) =>
    isOther(next.origin) ? watched($, ofProgram(e.argv, e.init ?? {}), () => next(e)) : next(e),
  ).catch(($, e, next) => next(e))

  on('process.spawn', async function* ($, e, next) {
    if (!isOther(next.origin)) return yield* next(e)
    const fields = ofProgram(e.argv, { cwd: e.cwd, stdin: e.input })
    const reason = refusal(await before($, 'PreToolUse', fields).catch(() => ({})))
    if (reason !== undefined) return { deny: reason }
    const done = yield* next(e)
    await after($, 'PostToolUse', fields)
    return done
  })
}
