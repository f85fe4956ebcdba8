// Mail: the daemon hands over what has come for this session; it goes into the running turn, or wakes a session at rest.
// Only once a request has carried it the daemon is told so: until then it waits, and comes again by another way.

import { ask, find } from './daemon.js'
import { toldAll } from './guard.js'

const AGAIN_MS = 3000
let isRunning = false
let canWake = false
let wakes = () => undefined // ends the pause of a session that cannot be woken
let taken = null // mail that was put into the conversation, and not carried by a request yet
let owed = [] // what the model was told, and the daemon has not heard of yet
let paying // the promise that it has

const owe = ({ session_id, messages, way }) => owed.push({ session_id, messages, way })

/** Tell the daemon what the model was told; what is owed after a fault is paid before the next mail is taken. */
function pay($) {
  return (paying ??= payAll($).finally(() => { paying = undefined }))
}

async function payAll($) {
  while (owed.length) {
    await ask($, 'Mail/told', owed[0])
    owed.shift()
  }
}

/** Whether an answer of the model came after the mail: then a request has carried it. */
async function wasCarried($, text) {
  const rows = await $.session.messages({ as: 'api' })
  const at = rows.findLastIndex(row => JSON.stringify(row.content).includes(JSON.stringify(text.slice(0, 200)).slice(1, -1)))
  return at >= 0 && rows.slice(at + 1).some(row => row.role === 'assistant')
}

async function bring($, mail) {
  if (!isRunning && !canWake) return
  const way = isRunning ? 'turn' : 'prompt'
  let done
  const settled = new Promise(resolve => { done = resolve })
  if (way === 'turn') {
    const { deny } = await $.session.append({ message: { type: 'user', content: [{ type: 'text', text: mail.text }] } })
    if (deny !== undefined) throw new Error(deny) // tried again, but not at once
    taken = { ...mail, way, done }
    if (!isRunning) void settle($, true) // the turn ended meanwhile
  } else {
    taken = { ...mail, way, done }
    await $.prompt.submit({ text: mail.text }).catch(fault => {
      taken = null
      throw fault
    })
  }
  await settled
}

/**
 * Look whether the mail in the conversation was carried. What was not at the end of a turn gets another one: its own, or the
 * one that waited for a person's. After that it goes back to the daemon, which offers it again.
 */
async function settle($, isOver) {
  if (!taken) return
  const mail = taken
  const isCarried = await wasCarried($, mail.text).catch(() => false)
  if (taken !== mail || !(isCarried || isOver)) return
  if (!isCarried && canWake && !mail.isLate) {
    mail.isLate = true
    if (mail.way === 'turn') void $.prompt.submit({ text: 'Corral brought mail.' }).catch(() => giveBack(mail))
    return
  }
  if (isCarried) {
    owe(mail)
    await pay($).catch(() => undefined) // the session may end with this turn
  }
  giveBack(mail)
}

function giveBack(mail) {
  if (taken === mail) taken = null
  mail.done()
}

async function serve($) {
  for (;;) {
    if (!isRunning && !canWake && !owed.length) await new Promise(done => { wakes = done })
    try {
      await pay($)
      const session_id = await $.session.id()
      const mail = await ask($, 'Mail/wait', { session_id, wakes: canWake }, 0)
      if (mail.text) await bring($, mail)
      else if (isRunning || canWake) await $.clock.sleep(AGAIN_MS)
    } catch {
      await $.clock.sleep(AGAIN_MS).catch(() => undefined)
    }
  }
}

/** Wait for mail for as long as this session lives; a session that no person sits before is not woken. */
export async function startMail($, isInteractive) {
  canWake = isInteractive
  if (await find($).catch(() => undefined) !== null) void serve($) // a search that failed is made again
}

export function mail(on) {
  on('turn.start', ($, e, next) => {
    if (e.agentId === undefined) {
      isRunning = true
      wakes()
    }
    return next(e)
  })

  on('classic.PostToolBatch', async ($, e, next) => {
    if (e.agent_id === undefined) await settle($, false)
    return next(e)
  })

  on('turn.complete', async ($, e, next) => {
    if (e.agentId === undefined) {
      isRunning = false
      await toldAll() // the client may end now
      await settle($, true)
      // An open question would keep the client from ending when its input does.
      if (!canWake) void ask($, 'Mail/wait', { leaves: true }).catch(() => undefined)
    }
    return next(e)
  })
}
