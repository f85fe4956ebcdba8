// What Corral does inside the client: a guard, mail, worktrees, a screen. Clients before mods have the hooks of hooks.json.

import { ask, introduce } from './daemon.js'
import { guard } from './guard.js'
import { mail, startMail } from './mail.js'
import { offerCommand, screen, startScreen } from './screen.js'
import { worktrees } from './worktrees.js'

export const register = (on, options) => {
  on('session.start', async ($, e, next) => {
    const isDrawn = e.isInteractive && options.screen !== false
    if (isDrawn) await offerCommand($)
    await introduce($)
    void ask($, 'ModStart', {}).catch(() => undefined) // told again with every question
    await startMail($, e.isInteractive)
    if (isDrawn) await startScreen($)
    return next(e)
  })
  guard(on)
  worktrees(on)
  mail(on)
  if (options.screen !== false) screen(on)
}
