// The guard: before a tool writes, the daemon is asked, and obeyed. Where no daemon answers, hook.py takes the last look.

import { ask, forget, lastLook } from './daemon.js'

const WRITES = /^(Write|Edit|MultiEdit|NotebookEdit|Bash|SendMessage|mcp__(?!plugin_corral_corral__).+)$/
const LONGEST = 131072
const told = new Set() // calls whose end the daemon has been told

// The daemon needs the names of files and the text of commands, never what is written.
const brief = ({ content, new_source, new_string, old_string, ...input }) =>
  Object.fromEntries(Object.entries(input).filter(([, value]) => typeof value === 'string' && value.length <= LONGEST))

const fieldsOf = ({ tool, tool_use_id, agentId, ...input }) =>
  ({ tool_name: tool, tool_use_id, agent_id: agentId ?? '', tool_input: brief(input) })

const refusal = answer => {
  const said = answer.hookSpecificOutput ?? {}
  return said.permissionDecision === 'deny' ? said.permissionDecisionReason || 'Corral refuses it.' : undefined
}

const notes = answer => [answer.hookSpecificOutput?.additionalContext].filter(Boolean)

function tell($, answer) {
  if (answer.systemMessage) $.ui.log(answer.systemMessage)
}

const withNotes = (ran, texts) =>
  texts.length && ran.deny === undefined ? { ...ran, context: [...(ran.context ?? []), ...texts] } : ran

async function look($, fields) {
  forget()
  try {
    return await lastLook($, 'PreToolUse', fields)
  } catch (fault) {
    return { systemMessage: `Corral cannot look whether somebody holds what this call writes, so it passes: ${fault.message}` }
  }
}

async function after($, event, fields) {
  const answer = await ask($, event, fields)
  told.add(fields.tool_use_id)
  tell($, answer)
  return notes(answer)
}

export function guard(on) {
  on('tool.call', { tool: WRITES }, async ($, e, next) => {
    const fields = fieldsOf(e)
    const answer = await ask($, 'PreToolUse', fields)
    tell($, answer)
    const reason = refusal(answer)
    if (reason !== undefined) return { deny: reason }
    const ran = await next(e)
    const isTold = told.delete(e.tool_use_id) || ran.deny !== undefined
    const event = ran.isError ? 'PostToolUseFailure' : 'PostToolUse'
    const more = isTold ? [] : await after($, event, fields).catch(() => [])
    told.delete(e.tool_use_id)
    return withNotes(ran, [...notes(answer), ...more])
  }).catch(async ($, e, next) => {
    if (next.called) return next(e)
    const answer = await look($, fieldsOf(e))
    tell($, answer)
    const reason = refusal(answer)
    return reason === undefined ? next(e) : { deny: reason }
  })

  on('classic.PostToolUse', { tool_name: WRITES }, async ($, e, next) => {
    const more = await after($, 'PostToolUse', classicFields(e))
    const out = (await next(e)) ?? {}
    return more.length ? { ...out, additionalContext: [...more, ...(out.additionalContext ?? [])] } : out
  })

  on('classic.PostToolUseFailure', { tool_name: WRITES }, async ($, e, next) => {
    const more = await after($, 'PostToolUseFailure', classicFields(e))
    const out = (await next(e)) ?? {}
    return more.length ? { ...out, additionalContext: [...more, ...(out.additionalContext ?? [])] } : out
  })
}

const classicFields = ({ tool_name, tool_use_id, agent_id, tool_input, cwd }) =>
  ({ tool_name, tool_use_id, agent_id: agent_id ?? '', tool_input: brief(tool_input ?? {}), cwd })
