"""The labelled set that matching is calibrated on: what an agent's memory of a web shop holds.

Entries as agents write them; the questions are in `matching_questions`. A question belongs to the
tuning half or to the held-out half by a hash of its text alone: thresholds are chosen on the first,
and what is claimed is measured on the second.
"""

import hashlib
from dataclasses import dataclass

from amend.core.matching import Texts
from amend.core.model import EntryName, Kind


@dataclass(frozen=True, slots=True)
class Asked:
    """`answer`: the key of the one entry that may be given instead of exploring, None: there is
    none. `useful`: keys of others that are worth offering beside it."""

    text: str
    answer: str | None
    useful: tuple[str, ...] = ()
    group: str = "paraphrase"

    @property
    def is_held_out(self) -> bool:
        return hashlib.blake2b(self.text.encode(), digest_size=1).digest()[0] % 2 == 1


def _entry(key: str, summary: str, files: str, kind: Kind = Kind.TOPIC) -> tuple[EntryName, Texts]:
    category, _, last = key.rpartition("/")
    said = f"{summary} {category}" if category else summary
    return EntryName(kind, key), Texts(last, said, tuple(files.split()))


ENTRIES = (
    _entry(
        "auth",
        "Login: POST /login checks bcrypt hashes, issues a 15 minute JWT access token and a refresh"
        " token in an httpOnly cookie; requireUser middleware verifies it on every request.",
        "src/auth/login.ts src/auth/jwt.ts src/auth/password.ts src/middleware/require-user.ts",
    ),
    _entry(
        "session-store",
        "Sessions live in Redis under sess:<id> with a sliding TTL of 7 days; logout deletes the"
        " key, 'log out everywhere' bumps the user's epoch.",
        "src/auth/session-store.ts src/lib/redis.ts",
    ),
    _entry(
        "permissions",
        "Role-based authorization: can(user, action, resource) consults the policy table; roles are"
        " admin, staff and customer. Route guards call requireRole.",
        "src/authz/policy.ts src/authz/roles.ts src/middleware/require-role.ts",
    ),
    _entry(
        "password-reset",
        "Forgot password: a single-use token, hashed, valid 1 hour, mailed as a link; resetting"
        " revokes every refresh token.",
        "src/auth/reset.ts src/emails/reset-password.mjml",
    ),
    _entry(
        "oauth-login",
        "Google and GitHub sign-in over OAuth 2 with PKCE; accounts are linked by verified email"
        " address in linked_identities.",
        "src/auth/oauth/google.ts src/auth/oauth/github.ts src/auth/oauth/link.ts",
    ),
    _entry(
        "cart",
        "Shopping cart: anonymous carts keyed by cookie, merged into the customer's cart at login;"
        " lines hold variant id and quantity, totals are computed on read.",
        "src/cart/cart.ts src/cart/merge.ts src/cart/routes.ts",
    ),
    _entry(
        "checkout-flow",
        "Checkout is a wizard of address, shipping, payment and review; each step is a route that"
        " PATCHes the checkout draft, placeOrder turns the draft into an order.",
        "src/checkout/steps.ts src/checkout/draft.ts src/checkout/place-order.ts",
    ),
    _entry(
        "payments",
        "Stripe PaymentIntents: created at the payment step, captured when the order ships; 3-D"
        " Secure handled by Stripe Elements in the browser.",
        "src/payments/stripe.ts src/payments/intents.ts web/components/PaymentForm.tsx",
    ),
    _entry(
        "refunds",
        "Partial and full refunds go through refundOrder, which restocks, calls Stripe and writes a"
        " credit note; staff need the refund permission.",
        "src/payments/refunds.ts src/orders/credit-note.ts",
    ),
    _entry(
        "webhooks",
        "Incoming webhooks from Stripe and the carriers: signature verified, stored in"
        " webhook_events, acknowledged with 200, processed later by a worker, idempotent by event"
        " id.",
        "src/webhooks/receive.ts src/webhooks/stripe.ts src/webhooks/carriers.ts",
    ),
    _entry(
        "order-lifecycle",
        "Order state machine: pending, paid, picking, shipped, delivered, cancelled; transitions in"
        " one table, each emits a domain event and writes order_history.",
        "src/orders/state-machine.ts src/orders/order.ts src/orders/events.ts",
    ),
    _entry(
        "inventory",
        "Stock is reserved for 20 minutes when checkout starts (stock_reservations), decremented at"
        " payment; a sweeper releases expired reservations.",
        "src/inventory/reserve.ts src/inventory/sweeper.ts",
    ),
    _entry(
        "product-search",
        "Search runs on Elasticsearch: index products_v3, synonyms per language, facets by"
        " aggregation; reindexing swaps an alias.",
        "src/search/query.ts src/search/indexer.ts src/search/mappings.json",
    ),
    _entry(
        "product-catalog",
        "Products have variants (size, colour), each with its own SKU and price; categories form a"
        " nested set, attributes are typed.",
        "src/catalog/product.ts src/catalog/variant.ts src/catalog/category.ts",
    ),
    _entry(
        "product-images",
        "Uploads go straight to S3 by presigned URL; a worker makes 4 sizes with sharp as webp and"
        " avif; URLs are served through CloudFront.",
        "src/media/upload.ts src/media/resize-worker.ts src/media/urls.ts",
    ),
    _entry(
        "coupons-and-discounts",
        "Discount rules are evaluated in priority order by applyDiscounts; coupon codes have usage"
        " limits and validity windows, stacking only where both allow it.",
        "src/pricing/discounts.ts src/pricing/coupons.ts",
    ),
    _entry(
        "tax-calculation",
        "VAT by destination country through TaxJar with a 24 h cache; B2B customers with a valid"
        " VAT id are reverse-charged; prices are stored net.",
        "src/tax/calculate.ts src/tax/vat-id.ts",
    ),
    _entry(
        "shipping-rates",
        "Rates come from the carriers' APIs (DHL, UPS) in parallel with a 2 s timeout, falling back"
        " to the weight table; free shipping above 50 EUR.",
        "src/shipping/rates.ts src/shipping/carriers/dhl.ts src/shipping/carriers/ups.ts",
    ),
    _entry(
        "email-sending",
        "sendMail renders an MJML template, puts a job on the mail queue; the worker sends through"
        " SES with three retries; bounces arrive over SNS.",
        "src/mail/send.ts src/mail/worker.ts src/emails/",
    ),
    _entry(
        "push-notifications",
        "Web push with VAPID keys; subscriptions per device; order status changes fan out through"
        " notifyUser; quiet hours are respected.",
        "src/push/subscribe.ts src/push/notify.ts web/service-worker.ts",
    ),
    _entry(
        "background-jobs",
        "BullMQ queues on Redis: defineJob registers a handler, concurrency by queue, exponential"
        " backoff, dead letters in failed_jobs; the dashboard is at /admin/queues.",
        "src/jobs/define.ts src/jobs/worker.ts src/jobs/queues.ts",
    ),
    _entry(
        "cron-schedules",
        "Recurring tasks are declared in schedules.ts (cron syntax, UTC) and enqueued by one leader"
        " elected with a Postgres advisory lock.",
        "src/jobs/schedules.ts src/jobs/leader.ts",
    ),
    _entry(
        "rate-limiting",
        "Token bucket per IP and per API key in Redis (Lua script); 429 with Retry-After; limits by"
        " route in limits.ts.",
        "src/middleware/rate-limit.ts src/middleware/limits.ts",
    ),
    _entry(
        "http-caching",
        "Product pages are cached at the edge for 60 s with stale-while-revalidate and purged by"
        " surrogate key when a product is saved; ETags on JSON.",
        "src/middleware/cache-headers.ts src/cdn/purge.ts",
    ),
    _entry(
        "database-schema",
        "Postgres through Prisma: 41 tables, money as integer cents, soft delete by deleted_at,"
        " UUID v7 primary keys, updated_at by trigger.",
        "prisma/schema.prisma",
    ),
    _entry(
        "migrations",
        "prisma migrate; every migration must be backward compatible for one release"
        " (expand, migrate, contract); data backfills run as jobs.",
        "prisma/migrations/ scripts/migrate.sh docs/migrations.md",
    ),
    _entry(
        "db-connections",
        "PgBouncer in transaction mode, pool of 10 per process, statement timeout 5 s; read"
        " replicas through prisma.$replica for reports.",
        "src/db/client.ts src/db/replica.ts infra/pgbouncer.ini",
    ),
    _entry(
        "error-handling",
        "AppError(code, status, message) is thrown, errorMiddleware turns it into problem+json;"
        " unknown errors become 500 and go to Sentry with the request id.",
        "src/errors/app-error.ts src/middleware/error.ts src/lib/sentry.ts",
    ),
    _entry(
        "logging",
        "pino JSON logs with request id from AsyncLocalStorage; redaction list for secrets and card"
        " data; level by LOG_LEVEL.",
        "src/lib/logger.ts src/middleware/request-log.ts",
    ),
    _entry(
        "observability",
        "OpenTelemetry traces and Prometheus metrics at /metrics; spans for SQL and queues; the"
        " dashboards are provisioned from grafana/.",
        "src/lib/telemetry.ts src/lib/metrics.ts grafana/",
    ),
    _entry(
        "feature-flags",
        "Flags are rows in feature_flags, cached 30 s, evaluated by isEnabled(flag, user) with"
        " percentage rollout by user hash; useFlag in React.",
        "src/flags/flags.ts web/hooks/useFlag.ts",
    ),
    _entry(
        "config-loading",
        "Environment variables are parsed once by zod in config.ts, the process exits on a missing"
        " one; secrets come from AWS Secrets Manager in production.",
        "src/config.ts .env.example",
    ),
    _entry(
        "i18n",
        "Translations are ICU messages in locales/<lang>.json, loaded with react-intl; the server"
        " picks the language from the path, then Accept-Language.",
        "web/i18n/provider.tsx web/locales/ src/middleware/locale.ts",
    ),
    _entry(
        "frontend-routing",
        "Next.js app router; (shop) and (account) route groups with their own layouts;"
        " middleware.ts redirects guests away from /account.",
        "web/app/ web/middleware.ts",
    ),
    _entry(
        "client-state",
        "Zustand for cart and UI state, React Query for server state; stores are created per"
        " request for SSR; persisted under shop-ui in localStorage.",
        "web/state/cart-store.ts web/state/ui-store.ts web/lib/query-client.ts",
    ),
    _entry(
        "ui-components",
        "Design system in packages/ui: Radix primitives styled with Tailwind and cva variants,"
        " documented in Storybook, tokens in tokens.css.",
        "packages/ui/src/ packages/ui/tokens.css packages/ui/.storybook/main.ts",
    ),
    _entry(
        "form-validation",
        "Forms use react-hook-form with zod schemas shared with the API from packages/schemas;"
        " server errors are mapped to fields by applyServerErrors.",
        "packages/schemas/src/ web/components/form/Form.tsx web/lib/server-errors.ts",
    ),
    _entry(
        "api-client",
        "The typed client is generated from openapi.json by orval into packages/api-client; retries"
        " GETs twice, refreshes the access token on 401.",
        "packages/api-client/orval.config.ts packages/api-client/src/fetcher.ts",
    ),
    _entry(
        "graphql-gateway",
        "Apollo server stitches catalog and content; DataLoader per request, depth limit 8,"
        " persisted queries only in production.",
        "gateway/server.ts gateway/schema/ gateway/loaders.ts",
    ),
    _entry(
        "testing-setup",
        "Vitest for units, Playwright for e2e against docker compose; factories in test/factories,"
        " each test runs inside a rolled back transaction.",
        "vitest.config.ts playwright.config.ts test/factories/ test/setup.ts",
    ),
    _entry(
        "ci-pipeline",
        "GitHub Actions: lint, typecheck, unit, e2e shards, then image build; only affected"
        " packages by turbo; main deploys to staging.",
        ".github/workflows/ci.yml .github/workflows/deploy.yml",
    ),
    _entry(
        "deployment",
        "Helm chart on EKS, canary of 10 percent by Argo Rollouts, automatic rollback on error"
        " rate; migrations run as a pre-upgrade hook.",
        "infra/helm/ infra/argo/rollout.yaml",
    ),
    _entry(
        "docker-images",
        "Multi-stage Dockerfile, distroless runtime, pnpm fetch layer for caching; one image, the"
        " role is chosen by ROLE=web, worker or scheduler.",
        "Dockerfile docker/entrypoint.sh .dockerignore",
    ),
    _entry(
        "release-process",
        "Changesets collect release notes; merging the version PR tags, publishes packages and"
        " writes CHANGELOG.md; hotfixes branch off the tag.",
        ".changeset/config.json scripts/release.ts",
    ),
    _entry(
        "admin-dashboard",
        "The back office is a separate Vite app in apps/admin with TanStack Table; it uses the same"
        " API with staff roles.",
        "apps/admin/src/ apps/admin/vite.config.ts",
    ),
    _entry(
        "audit-log",
        "Every staff mutation is appended to audit_log (actor, action, before, after) by a Prisma"
        " middleware; retained 2 years, shown in the back office.",
        "src/audit/middleware.ts src/audit/query.ts",
    ),
    _entry(
        "analytics-events",
        "track(event, props) batches to Segment; the event catalogue is typed in events.ts; consent"
        " is checked before anything is sent.",
        "web/analytics/track.ts web/analytics/events.ts",
    ),
    _entry(
        "csv-import",
        "Product CSV import: streamed with csv-parse, validated row by row, upserted in batches of"
        " 500, errors downloadable as CSV.",
        "src/import/csv.ts src/import/rows.ts",
    ),
    _entry(
        "invoices",
        "Invoice PDFs are rendered from HTML by a headless Chromium worker, numbered without gaps"
        " by a locked counter, kept in S3 for 10 years.",
        "src/invoices/number.ts src/invoices/render.ts",
    ),
    _entry(
        "gdpr-export",
        "Data export and erasure: a job collects everything about a customer into a zip; erasure"
        " anonymises orders and deletes the account after 30 days.",
        "src/gdpr/export.ts src/gdpr/erase.ts",
    ),
    _entry(
        "customer-reviews",
        "Product reviews need a delivered order, are moderated by a staff queue; the average rating"
        " is denormalised on the product.",
        "src/reviews/reviews.ts src/reviews/moderation.ts",
    ),
    _entry(
        "recommendations",
        "'Bought together' is computed nightly from order lines (lift above 1.5) into"
        " product_affinity; served from memory.",
        "src/reco/affinity.ts src/reco/serve.ts",
    ),
    _entry(
        "monorepo-tooling",
        "pnpm workspaces and Turborepo; tsconfig and eslint presets live in packages/config; Node"
        " 22 pinned by .nvmrc; path alias @shop/*.",
        "pnpm-workspace.yaml turbo.json packages/config/",
    ),
    _entry(
        "shopctl",
        "Command line for operators: commander commands in cli/commands, each gets a context with"
        " db, logger and dry-run flag.",
        "cli/main.ts cli/commands/",
    ),
    _entry(
        "api-errors",
        "Handlers throw AppError and never call res.status by hand; every code is listed in"
        " errors/codes.ts.",
        "",
        Kind.PATTERN,
    ),
    _entry(
        "naming",
        "Files are kebab-case, React components PascalCase, hooks start with use; database columns"
        " snake_case.",
        "",
        Kind.PATTERN,
    ),
    _entry(
        "repositories",
        "Only modules in src/db/repos talk to Prisma; services get repositories by constructor"
        " injection and return plain objects.",
        "src/db/repos/",
        Kind.PATTERN,
    ),
    _entry(
        "products-get",
        "GET /api/products/:id returns id, title, variants, price_cents, rating; 404"
        " product_not_found.",
        "src/catalog/routes.ts src/catalog/serialize.ts",
        Kind.CONTRACT,
    ),
    _entry(
        "decisions/event-bus",
        "Domain events go through an outbox table and are relayed to NATS; consumers are idempotent"
        " by event id; no distributed transactions.",
        "src/events/outbox.ts src/events/relay.ts",
        Kind.NOTE,
    ),
)
