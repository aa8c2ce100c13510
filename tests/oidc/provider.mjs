// A real OpenID Connect provider for tests, on loopback: `node provider.mjs PORT [CLIENTS]`, with the clients of a JSON
// file in place of one that is native. It signs with the keys of the JWKS file PROVIDER_KEYS, else with its own for
// development. Whoever signs in is who they say they are.
import { readFileSync } from 'node:fs';
import Provider from 'oidc-provider';

const GROUPS = { ada: ['analysts', 'riders'] };
const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const NATIVE = [{
  client_id: 'daggers',
  application_type: 'native',
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
  redirect_uris: ['http://127.0.0.1/callback', 'http://127.0.0.1/auth/callback'],
}];
const provider = new Provider(issuer, {
  clients: process.argv[3] ? JSON.parse(readFileSync(process.argv[3])) : NATIVE,
  ...(process.env.PROVIDER_KEYS && { jwks: JSON.parse(readFileSync(process.env.PROVIDER_KEYS)) }),
  conformIdTokenClaims: false,
  claims: { openid: ['sub'], groups: ['groups'], email: ['email', 'email_verified'] },
  scopes: ['openid', 'groups', 'email', 'offline_access'],
  cookies: { keys: ['a key for tests'] },
  features: { deviceFlow: { enabled: true }, revocation: { enabled: true }, devInteractions: { enabled: true } },
  async findAccount(_, id) {
    return {
      accountId: id,
      async claims() {
        return { sub: id, groups: GROUPS[id] ?? [], email: `${id}@example.org`, email_verified: true };
      },
    };
  },
});
provider.listen(port, '127.0.0.1', () => console.log(issuer));
