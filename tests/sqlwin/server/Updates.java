import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Properties;

/** Prints the update counts that PostgreSQL's JDBC driver reports for INSERTs into tables o and p. */
public class Updates {
    public static void main(String[] arguments) throws Exception {
        Properties login = new Properties();
        login.setProperty("user", arguments[1]);
        login.setProperty("password", arguments[2]);
        try (Connection connection = DriverManager.getConnection(arguments[0], login);
                Statement statement = connection.createStatement()) {
            System.out.println("one " + statement.executeUpdate("INSERT INTO o VALUES ('a', 1)"));
            System.out.println(
                    "two " + statement.executeUpdate("/* rows */ INSERT INTO o VALUES ('b', 2), ('c', 3)"));
            System.out.println("execute " + statement.execute("INSERT INTO o VALUES ('d', 4)")
                    + " " + statement.getUpdateCount());
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO o VALUES (?, ?)")) {
                insert.setString(1, "e");
                insert.setInt(2, 5);
                System.out.println("prepared " + insert.executeUpdate());
                for (int n = 6; n < 9; n++) {
                    insert.setString(1, "batch");
                    insert.setInt(2, n);
                    insert.addBatch();
                }
                System.out.println("batch " + Arrays.toString(insert.executeBatch()));
            }
            login.setProperty("reWriteBatchedInserts", "true");
            try (Connection rewriting = DriverManager.getConnection(arguments[0], login);
                    PreparedStatement insert = rewriting.prepareStatement("INSERT INTO p VALUES (?, ?)")) {
                for (int n = 0; n < 8; n++) {
                    insert.setString(1, "rewritten");
                    insert.setInt(2, n);
                    insert.addBatch();
                }
                System.out.println("rewritten " + insert.executeBatch().length);
            }
            connection.setAutoCommit(false);
            statement.setFetchSize(3);
            int nRows = 0;
            try (ResultSet rows = statement.executeQuery("SELECT * FROM o")) {
                while (rows.next()) {
                    nRows++;
                }
            }
            System.out.println("rows " + nRows);
            connection.commit();
        }
    }
}
