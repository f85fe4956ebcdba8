// What Corral does inside the client: a guard, mail, worktrees, a screen. Clients before mods have hooks.json for it.

import { introduce, ask } from './daemon.js'
import { guard } from './guard.js'

export const register = (on, options) => {
  on('session.start', async ($, e, next) => {
    await introduce($)
    void ask($, 'ModStart', {}).catch(() => undefined) // told again with every question
    return next(e)
  })
  guard(on)
}
