// An editor by the protocol's TypeScript library: `node editor.mjs SDK FOLDER WORDS COMMAND…` starts the agent, says the
// words, allows what is asked, and prints what it was told, a JSON object a line.
import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, words, ...command] = process.argv.slice(2);
const acp = await import(pathToFileURL(sdk));
const tell = (what) => console.log(JSON.stringify(what));
const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const editor = acp.client({ name: "editor" }).onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
  tell({ asked: params });
  const allowed = params.options.find((option) => option.kind === "allow_once");
  return { outcome: { outcome: "selected", optionId: allowed.optionId } };
});

await editor.connectWith(stream, async (ctx) => {
  const greeting = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
  tell({ greeted: await ctx.request(acp.methods.agent.initialize, greeting) });
  const session = await ctx.buildSession(cwd).start();
  tell({ modes: session.modes });
  session.prompt(words);
  let message = await session.nextUpdate();
  for (; message.kind !== "stop"; message = await session.nextUpdate()) tell(message.update);
  tell({ stopped: message.stopReason });
  tell({ listed: await ctx.request(acp.methods.agent.session.list, { cwd }) });
});
agent.stdin.end();
